//! What is trained: settings, ratings and the part of them that is not held out.

use std::path::Path;

use dp_core::ApproxDp;
use dp_data::{RatingSplit, Ratings, RatingsColumns, RatingsFormat, SplitFractions};
use dp_multitask::FactorizationParams;

use crate::args::{InputArgs, SettingArgs, SplitArgs};
use crate::error::Result;

/// Defaults from the target, overridden by flags.
pub(crate) fn settings(args: &SettingArgs, target: ApproxDp) -> FactorizationParams {
    let mut params = FactorizationParams::for_target(target);
    params.dim = args.dim.or(params.dim);
    params.n_rounds = args.steps.unwrap_or(params.n_rounds);
    for (setting, flag) in [
        (&mut params.weight_exponent, args.weight_exponent),
        (&mut params.clip_norm, args.clip_norm),
        (&mut params.label_center, args.label_center),
        (&mut params.label_bound, args.label_bound),
        (&mut params.item_ridge_factor, args.reg),
        (&mut params.count_share, args.count_share),
    ] {
        *setting = flag.unwrap_or(*setting);
    }
    params
}

/// Ratings, with the catalogue that was declared or else the items found in them.
pub(crate) fn read(path: &Path, args: &InputArgs) -> Result<Ratings> {
    let format = RatingsFormat::default().with_columns(RatingsColumns {
        user: args.user_col.clone(),
        item: args.item_col.clone(),
        rating: args.rating_col.clone(),
    });
    Ok(match &args.items {
        Some(items) => {
            let catalogue = dp_data::read_catalogue(items)?;
            dp_data::read_ratings_with_catalogue(path, &format, catalogue)?
        }
        None => dp_data::read_ratings(path, &format)?,
    })
}

/// The parts to train on and to test on, by the seed of the flags.
pub(crate) fn hold_out(args: &SplitArgs, ratings: &Ratings) -> Result<RatingSplit> {
    let fractions = if args.no_split {
        SplitFractions::new(1.0, 0.0, 0.0)?
    } else {
        SplitFractions::default()
    };
    Ok(ratings.split(fractions, args.split_seed))
}
