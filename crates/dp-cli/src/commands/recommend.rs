//! `dp recommend`: fold one user in, locally, and rank the items the user has not rated.

use dp_core::InteractionsBuilder;
use serde_json::json;

use crate::args::RecommendArgs;
use crate::error::Result;
use crate::output;

pub(crate) fn run(args: &RecommendArgs) -> Result<()> {
    dp_core::params::at_least_one("k", args.count)?;
    let (model, catalogue) = output::read_model(&args.model)?;
    let history = dp_data::read_history(&args.history, &catalogue)?;
    let mut builder = InteractionsBuilder::new(model.n_items());
    for &(item, value) in history.records() {
        builder.push(0, item, value).map_err(dp_data::Error::from)?;
    }
    builder.ensure_users(1);
    let (table, _) = builder.build();
    let row = table.user(0);
    let personal = model.fold_in(row)?;
    let best = model.recommend(&personal, args.count, row.items())?;

    let rows: Vec<_> = (1..)
        .zip(&best)
        .map(|(rank, &(item, rating))| {
            let item = item as usize;
            json!({
                "rank": rank,
                "item": catalogue.ids()[item],
                "title": catalogue.title(item),
                "predicted_rating": rating,
            })
        })
        .collect();
    if args.json {
        return output::print_json(&json!({
            "n_history": row.len(),
            "n_unknown_items": history.n_unknown_items(),
            "recommendations": rows,
        }));
    }
    println!("from {} own ratings:", row.len());
    for (rank, &(item, rating)) in (1..).zip(&best) {
        let item = item as usize;
        let id = &catalogue.ids()[item];
        let title = catalogue.title(item).unwrap_or("");
        println!("{rank:>4}  {rating:>5.2}  {id:<10} {title}");
    }
    Ok(())
}
