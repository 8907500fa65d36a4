//! How much weight of each group crosses each link, kept as a sparse matrix with the entries of a
//! row (a link) and of a column (a group) both at hand.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// An entry of a group's column: a link that some of its members cross.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    pub(super) link: u32,
    /// Position in the link's row.
    row_at: u32,
    /// Classes of the group that cross the link.
    pub(super) classes: u32,
    /// Sum of their weights; whole numbers, so that adding and taking away is exact.
    pub(super) weight: f64,
}

/// An entry of a link's row: a group of which some members cross it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossed {
    pub(super) group: u32,
    /// Position in the group's column.
    pub(super) column_at: u32,
}

/// The matrix. A group's own link is not in it: the caller keeps that weight apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    columns: Vec<Vec<Crossing>>,
    rows: Vec<Vec<Crossed>>,
    /// From (link, group) to the position in the group's column.
    places: HashMap<u64, u32, BuildHasherDefault<Spread>>,
}

/// Two 32-bit positions, spread over 64 bits by a multiplication (Knuth's multiplicative hash).
#[derive(Clone, Copy, Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys of the matrix are 64-bit numbers");
    }

    fn write_u64(&mut self, key: u64) {
        let product = u128::from(key ^ 0x5bd1_e995) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        self.0 = (product >> 40) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn key(link: u32, group: u32) -> u64 {
    u64::from(link) << 32 | u64::from(group)
}

impl Pairs {
    /// Makes room for links and groups below `count`.
    pub(super) fn grow(&mut self, count: usize) {
        if count > self.rows.len() {
            self.rows.resize_with(count, Vec::new);
            self.columns.resize_with(count, Vec::new);
        }
    }

    /// The links that members of `group` cross, its own excepted.
    pub(super) fn column(&self, group: u32) -> &[Crossing] {
        &self.columns[group as usize]
    }

    /// The groups with members that cross `link`, its own excepted.
    pub(super) fn row(&self, link: u32) -> &[Crossed] {
        &self.rows[link as usize]
    }

    /// The entry that a row's entry stands for.
    pub(super) fn crossing(&self, crossed: Crossed) -> &Crossing {
        &self.columns[crossed.group as usize][crossed.column_at as usize]
    }

    /// A class of `weight` in `group` crosses `link` from now on.
    pub(super) fn enter(&mut self, link: u32, group: u32, weight: f64) {
        let column = &mut self.columns[group as usize];
        let row = &mut self.rows[link as usize];
        let at = *self.places.entry(key(link, group)).or_insert_with(|| {
            let at = column.len() as u32;
            let row_at = row.len() as u32;
            column.push(Crossing { link, row_at, classes: 0, weight: 0.0 });
            row.push(Crossed { group, column_at: at });
            at
        });
        let entry = &mut column[at as usize];
        entry.classes += 1;
        entry.weight += weight;
    }

    /// A class of `weight` in `group` crosses `link` no longer. Returns whether no class of another
    /// link's group does now.
    pub(super) fn leave(&mut self, link: u32, group: u32, weight: f64) -> bool {
        let at = self.places[&key(link, group)] as usize;
        let entry = &mut self.columns[group as usize][at];
        entry.classes -= 1;
        entry.weight -= weight;
        if entry.classes > 0 {
            return false;
        }
        let row_at = entry.row_at as usize;
        self.places.remove(&key(link, group));
        let column = &mut self.columns[group as usize];
        column.swap_remove(at);
        if let Some(moved) = column.get(at) {
            self.rows[moved.link as usize][moved.row_at as usize].column_at = at as u32;
            self.places.insert(key(moved.link, group), at as u32);
        }
        let row = &mut self.rows[link as usize];
        row.swap_remove(row_at);
        if let Some(moved) = row.get(row_at) {
            self.columns[moved.group as usize][moved.column_at as usize].row_at = row_at as u32;
        }
        row.is_empty()
    }

    /// The weight of a class of `group` that crosses `link` has changed by `change`.
    pub(super) fn adjust(&mut self, link: u32, group: u32, change: f64) {
        let at = self.places[&key(link, group)] as usize;
        self.columns[group as usize][at].weight += change;
    }
}
