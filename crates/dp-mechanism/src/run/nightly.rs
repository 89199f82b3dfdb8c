//! A run of a paced lifetime: the nights in its list, then tonight's.

use dp_accounting::{Plan, ReleaseRecord};
use dp_core::{Interactions, Private, params};

use super::releases::vector_form;
use super::{
    Account, Ask, Observed, ObservedSums, PaidLine, ReleaseEntry, ReleaseForm, ReleaseKind, Run,
    Source, check_form,
};
use crate::contribution::{AnyContribution, SparseBuffer, VectorContribution};
use crate::paced::add_noise;
use crate::release::{NoiseLaw, ReleasedVector};
use crate::sum_backend::{InProcess, SumBackend, sum_over_users};
use crate::vector_sum::{VectorSum, observed_night};
use crate::{Error, Grid, NoiseSource, PacedLifetime, ReleasedNight, Result};

/// Where tonight's release comes from.
pub(super) struct Nightly<'a> {
    lifetime: &'a mut PacedLifetime,
    tonight: u32,
    noise: &'a mut NoiseSource,
    pub(super) backend: &'a dyn SumBackend,
}

impl<'a> Run<'a> {
    /// A run that makes night `tonight` of a lifetime, after the nights in its
    /// [list](Self::listed_in). Its trainer calls [`night`](Self::night) repeatedly until there are
    /// no more.
    ///
    /// `tonight` is a number that increases with time, such as the days since the lifetime began.
    /// Nights may be skipped. The number is public and must not depend on the data.
    ///
    /// # Errors
    /// [`Error::Plan`] for a plan that is not the lifetime's; [`Error::List`] if the plan cannot be
    /// written.
    pub fn nightly(
        plan: &'a Plan,
        lifetime: &'a mut PacedLifetime,
        tonight: u32,
        noise: &'a mut NoiseSource,
    ) -> Result<Self> {
        let reserved = lifetime.state()?.release;
        if *plan.releases() != [reserved] {
            return Err(Error::Plan {
                label: plan.releases().first().map_or("", |r| r.label()).to_owned(),
            });
        }
        let insecure = noise.is_insecure();
        let backend = &InProcess;
        let source = Source::Nightly(Nightly {
            lifetime,
            tonight,
            noise,
            backend,
        });
        let mut run = Self::of(plan, source, insecure)?;
        run.accounts.push(Account::default()); // the only ledger, which was charged before any night
        Ok(run)
    }

    /// The next night of a paced lifetime: from the list, or tonight's, which is summed, charged,
    /// noised and listed. `None` if there is no other: tonight's has been made or is in the list,
    /// or, in a [replay](Self::replay), the list has no more.
    ///
    /// The number `n` of coordinates may grow from night to night within the draws that the
    /// lifetime reserved. A user whose contribution has norm `clip_norm` or less enters the sum
    /// with it multiplied by `D_a / D`. Sums and totals of weights must therefore be released on
    /// the same night, so that the common factor of all of a user's coordinates cancels. Several
    /// blocks of a model are ranges of the one vector.
    ///
    /// # Privacy
    /// See [`PacedLifetime`]. A night that was handed out and not listed, because of a crash, is
    /// lost: the next one is another night.
    ///
    /// # Errors
    /// [`dp_accounting::Error::NightPassed`], [`dp_accounting::Error::NightDraws`] before any data
    /// is summed; [`Error::FirstSeen`]; [`Error::Nightly`] for a run that is not nightly, for
    /// workers, and for sums by other machines; [`Error::UnpaidNight`] for a list with a night that
    /// the ledger did not hand out; the errors of the backend, and [`Error::Io`].
    pub fn night<C: VectorContribution>(
        &mut self,
        data: &Private<Interactions>,
        shape: (usize, f64),
        contribution: &C,
    ) -> Result<Option<ReleasedNight>> {
        self.night_of(data, shape, contribution)
    }

    fn night_of(
        &mut self,
        data: &Private<Interactions>,
        (n, clip_norm): (usize, f64),
        contribution: &dyn AnyContribution<SparseBuffer>,
    ) -> Result<Option<ReleasedNight>> {
        params::at_least_one("n_coordinates", n)?;
        let (label, multiplier) = self.of_all_nights()?;
        let grid = Grid::new(multiplier, clip_norm)?;
        if let Some(entry) = self.list.next_replayed()? {
            return self.listed_night(entry, (label, grid), n).map(Some);
        }
        let Source::Nightly(nightly) = &mut self.source else {
            return match self.source {
                Source::Nowhere => Ok(None),
                _ => Err(Error::Nightly {
                    what: "a night of a paced lifetime is made by a nightly run in one process, since workers hold no store of first nights",
                }),
            };
        };
        let night = nightly.tonight;
        if self.last_night.is_some_and(|last| night <= last) {
            return Ok(None);
        }
        let backend = nightly.backend;
        if !backend.holds_all() {
            return Err(Error::Nightly {
                what: "the users of a paced lifetime have to be in one process, since workers hold no store of first nights: make its \
                       nights without workers",
            });
        }
        let tonight = nightly.lifetime.tonight(data.expose(), (night, n), &grid)?;
        let bounds = tonight.bounds.clone();
        let request = self.request(n)?;
        let total = sum_over_users(backend, data.expose(), &request, &|shard| {
            VectorSum::night_sum(shard, &bounds, n, &grid, contribution)
        })?;
        let Source::Nightly(nightly) = &mut self.source else {
            return Err(only_nights());
        };
        let spend = nightly.lifetime.pay(tonight)?;
        let integers = add_noise(total, &grid, &spend, nightly.noise)?;
        let insecure = nightly.noise.is_insecure();
        let line = PaidLine {
            account: 0,
            data_set: spend.data_set_id().to_owned(),
            release_id: spend.release_id().to_owned(),
        };
        let at = (self.list.len(), self.list.head());
        let form = night_form(label.clone(), (&grid, n), night);
        let entry = ReleaseEntry::new(form, vec![line], insecure, integers, at)?;
        self.charge_night(&entry, night)?;
        let entry = self.publish(entry, backend)?;
        let released = released(grid, entry);
        self.show(&Observed {
            labels: [&label; 2],
            noise_multipliers: [multiplier; 2],
            sums: ObservedSums::Vector {
                grid: &grid,
                released: &released,
                one_user: &|row| {
                    observed_night((&grid, bounds.get(row.key())), n, contribution, row)
                },
            },
        });
        Ok(Some(ReleasedNight {
            number: night,
            sum: released,
        }))
    }

    /// Passes over the nights of the list, all with this `clip_norm`: for a trainer that kept what they say ([`last_listed`](Self::last_listed)).
    ///
    /// # Errors
    /// As [`night`](Self::night) for nights of the list.
    pub fn skip_listed_nights(&mut self, clip_norm: f64) -> Result<()> {
        let (label, multiplier) = self.of_all_nights()?;
        let grid = Grid::new(multiplier, clip_norm)?;
        while let Some(n) = self.listed_len()? {
            if let Some(entry) = self.list.next_replayed()? {
                self.listed_night(entry, (label.clone(), grid), n)?;
            }
        }
        Ok(())
    }

    /// Label and noise multiplier of the one release of the plan.
    fn of_all_nights(&self) -> Result<(String, f64)> {
        let [lifetime] = self.plan.releases() else {
            return Err(Error::Nightly {
                what: "the plan of a paced lifetime has one release, the event of all nights",
            });
        };
        Ok((lifetime.label().to_owned(), lifetime.noise_multiplier()?))
    }

    /// Number of coordinates of the next night in the list; `None` if the list has no more.
    ///
    /// # Errors
    /// [`Error::List`] if the list cannot be read.
    pub fn listed_len(&mut self) -> Result<Option<usize>> {
        self.list.next_len()
    }

    /// Hash of the last night in the list, if there is one. State that a trainer cached under this
    /// hash belongs to these nights.
    #[must_use]
    pub fn last_listed(&self) -> Option<&str> {
        self.list.last_before()
    }

    /// A night that is in the list.
    fn listed_night(
        &mut self,
        entry: ReleaseEntry,
        (label, grid): (String, Grid),
        n: usize,
    ) -> Result<ReleasedNight> {
        let wrong = |what: &str| Error::List {
            what: format!("release {}: {what}", entry.step()),
        };
        let night = entry.form().night;
        let night = night.ok_or_else(|| wrong("it is no night of a paced lifetime"))?;
        let ask = Ask {
            form: night_form(label, (&grid, n), night),
            sampling: None,
            n_keys: 1,
        };
        check_form(&entry, &ask)?;
        if self.last_night.is_some_and(|last| night <= last) {
            return Err(wrong("its night is not after the one before it"));
        }
        if let Source::Nightly(nightly) = &mut self.source {
            let id = nightly.lifetime.release_id();
            let is_paid = nightly.lifetime.has_night(night)
                && matches!(entry.paid(), [line] if line.release_id == id);
            if !is_paid {
                return Err(Error::UnpaidNight { night });
            }
            nightly.noise.skip(ask.n_keys);
        }
        self.charge_night(&entry, night)?;
        self.insecure |= entry.is_insecure();
        self.report(&entry)?;
        Ok(ReleasedNight {
            number: night,
            sum: released(grid, entry),
        })
    }

    /// One release of the plan covers all nights. The certificate names the last of them, whose
    /// hash identifies all.
    fn charge_night(&mut self, entry: &ReleaseEntry, night: u32) -> Result<()> {
        let (Some(account), [line], [planned]) = (
            self.accounts.first_mut(),
            entry.paid(),
            self.plan.releases(),
        ) else {
            return Err(Error::List {
                what: "a night that another number of lines or accounts paid for".to_owned(),
            });
        };
        let hash = Some(entry.hash().to_owned());
        match account.records.first_mut() {
            Some(record) if record.release_id == line.release_id => record.entry_hash = hash,
            Some(_) => {
                return Err(Error::List {
                    what: "its nights are of two lifetimes".to_owned(),
                });
            }
            None => {
                account.data_set = Some(line.data_set.clone());
                account.records.push(ReleaseRecord {
                    label: planned.label().to_owned(),
                    event: planned.event().clone(),
                    n_draws: planned.n_draws(),
                    release_id: line.release_id.clone(),
                    entry_hash: hash,
                });
            }
        }
        self.last_night = Some(night);
        Ok(())
    }
}

fn night_form(label: String, (grid, n): (&Grid, usize), night: u32) -> ReleaseForm {
    ReleaseForm {
        kind: ReleaseKind::Night,
        night: Some(night),
        ..vector_form(label, grid, n)
    }
}

/// The error of a nightly run for requests for other releases.
pub(super) const fn only_nights() -> Error {
    Error::Nightly {
        what: "a run of a paced lifetime releases nights and nothing else: pay for other releases in a run of their own",
    }
}

fn released(grid: Grid, entry: ReleaseEntry) -> ReleasedVector {
    let insecure = entry.is_insecure();
    ReleasedVector::new(grid, entry.into_integers(), NoiseLaw::Floored, insecure)
}
