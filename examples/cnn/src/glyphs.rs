//! Generated images of five digits, by writers with individual handwriting.

use rand::{Rng, RngExt};

/// Pixels along a side.
pub const SIDE: usize = 12;
/// Number of digits.
pub const N_CLASSES: usize = 5;
/// Positions of the one and the seven among the classes.
const ONE_AND_SEVEN: (usize, usize) = (1, 4);

type Point = (f32, f32);

/// Strokes of each digit (0, 1, 2, 4, 7) in the unit square, y downwards.
const STROKES: [&[Point]; N_CLASSES] = [
    &[
        (0.5, 0.05),
        (0.8, 0.3),
        (0.8, 0.7),
        (0.5, 0.95),
        (0.2, 0.7),
        (0.2, 0.3),
        (0.5, 0.05),
    ],
    &[(0.35, 0.25), (0.55, 0.05), (0.55, 0.95)],
    &[
        (0.2, 0.25),
        (0.5, 0.05),
        (0.8, 0.3),
        (0.2, 0.95),
        (0.8, 0.95),
    ],
    &[(0.65, 0.95), (0.65, 0.05), (0.2, 0.65), (0.85, 0.65)],
    &[(0.2, 0.08), (0.8, 0.08), (0.4, 0.95)],
];

/// How a person writes.
#[derive(Debug, Clone, Copy)]
pub struct Writer {
    slant: f32,
    thickness: f32,
    /// Whether ones and sevens are exchanged.
    exchanges: bool,
}

impl Writer {
    /// A random writer; four in ten exchange ones and sevens.
    pub fn new(rng: &mut impl Rng) -> Self {
        Self {
            slant: rng.random_range(-0.35..0.35),
            thickness: rng.random_range(0.04..0.12),
            exchanges: rng.random_bool(0.4),
        }
    }

    /// An image of a random digit, and its class.
    pub fn write(&self, rng: &mut impl Rng) -> (Vec<f32>, f32) {
        let class = rng.random_range(0..N_CLASSES);
        let (one, seven) = ONE_AND_SEVEN;
        let shape = match class {
            class if self.exchanges && class == one => seven,
            class if self.exchanges && class == seven => one,
            class => class,
        };
        let label = class as f32;
        (self.draw(STROKES[shape], rng), label)
    }

    fn draw(&self, strokes: &[Point], rng: &mut impl Rng) -> Vec<f32> {
        let mut jitter = || rng.random_range(-0.06..0.06_f32);
        let shift = (jitter(), jitter());
        let corners: Vec<Point> = strokes
            .iter()
            .map(|&(x, y)| {
                let x = x + self.slant * (0.5 - y) + shift.0 + 0.5 * jitter();
                (x, y + shift.1 + 0.5 * jitter())
            })
            .collect();
        let pixel = |at: usize| (at as f32 + 0.5) / SIDE as f32;
        let places = (0..SIDE * SIDE).map(|at| (pixel(at % SIDE), pixel(at / SIDE)));
        let ink = places.map(|place| {
            let near = corners
                .windows(2)
                .map(|ends| distance(place, ends[0], ends[1]));
            let nearest = near.fold(f32::INFINITY, f32::min);
            (1.0 - (nearest - self.thickness) / 0.06).clamp(0.0, 1.0)
        });
        ink.map(|ink| ink + rng.random_range(-0.1..0.1)).collect()
    }
}

/// Distance from a point to the segment between two others.
fn distance(p: Point, a: Point, b: Point) -> f32 {
    let (along, to) = ((b.0 - a.0, b.1 - a.1), (p.0 - a.0, p.1 - a.1));
    let length = along.0 * along.0 + along.1 * along.1;
    let t = ((to.0 * along.0 + to.1 * along.1) / length.max(1e-9)).clamp(0.0, 1.0);
    (to.0 - t * along.0).hypot(to.1 - t * along.1)
}
