//! Binary min-heaps whose entries can be moved and removed by identifier.
//!
//! Keys are doubles without NaN; equal keys leave in order of identifier, so that the order of
//! events does not depend on the history of the heap.

/// A key and the identifier it belongs to.
pub(crate) type Entry = (f64, u32);

/// In `positions`: not in the heap.
pub(crate) const ABSENT: u32 = u32::MAX;

fn before(a: Entry, b: Entry) -> bool {
    a.0 < b.0 || (a.0 == b.0 && a.1 < b.1)
}

fn sift_up(entries: &mut [Entry], positions: &mut [u32], mut at: usize) {
    let moving = entries[at];
    while at > 0 {
        let parent = (at - 1) / 2;
        if !before(moving, entries[parent]) {
            break;
        }
        entries[at] = entries[parent];
        positions[entries[at].1 as usize] = at as u32;
        at = parent;
    }
    entries[at] = moving;
    positions[moving.1 as usize] = at as u32;
}

fn sift_down(entries: &mut [Entry], positions: &mut [u32], mut at: usize) {
    let moving = entries[at];
    loop {
        let mut child = 2 * at + 1;
        if child >= entries.len() {
            break;
        }
        if child + 1 < entries.len() && before(entries[child + 1], entries[child]) {
            child += 1;
        }
        if !before(entries[child], moving) {
            break;
        }
        entries[at] = entries[child];
        positions[entries[at].1 as usize] = at as u32;
        at = child;
    }
    entries[at] = moving;
    positions[moving.1 as usize] = at as u32;
}

/// Puts `id` at `key`, whether it was there or not. Heaps whose identifiers are disjoint may share
/// `positions`.
pub(crate) fn set(entries: &mut Vec<Entry>, positions: &mut [u32], id: u32, key: f64) {
    debug_assert!(!key.is_nan(), "a heap key is not a number");
    let at = positions[id as usize];
    if at == ABSENT {
        let last = entries.len();
        entries.push((key, id));
        sift_up(entries, positions, last);
        return;
    }
    let at = at as usize;
    let old = entries[at].0;
    entries[at].0 = key;
    if key < old {
        sift_up(entries, positions, at);
    } else if key > old {
        sift_down(entries, positions, at);
    }
}

/// Takes `id` out, if it is there.
pub(crate) fn remove(entries: &mut Vec<Entry>, positions: &mut [u32], id: u32) {
    let at = positions[id as usize];
    if at == ABSENT {
        return;
    }
    positions[id as usize] = ABSENT;
    let at = at as usize;
    let last = entries.pop().expect("an entry has a position only while it is in the heap");
    if at < entries.len() {
        entries[at] = last;
        positions[last.1 as usize] = at as u32;
        sift_up(entries, positions, at);
        sift_down(entries, positions, positions[last.1 as usize] as usize);
    }
}

/// A heap with positions of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heap {
    entries: Vec<Entry>,
    positions: Vec<u32>,
}

impl Heap {
    /// An empty heap for identifiers below `count`.
    pub(crate) fn for_ids(count: usize) -> Self {
        Self { entries: Vec::new(), positions: vec![ABSENT; count] }
    }

    /// Makes room for identifiers below `count`.
    pub(crate) fn grow(&mut self, count: usize) {
        if count > self.positions.len() {
            self.positions.resize(count, ABSENT);
        }
    }

    pub(crate) fn set(&mut self, id: u32, key: f64) {
        set(&mut self.entries, &mut self.positions, id, key);
    }

    pub(crate) fn remove(&mut self, id: u32) {
        remove(&mut self.entries, &mut self.positions, id);
    }

    pub(crate) fn first(&self) -> Option<Entry> {
        self.entries.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_heap_agrees_with_a_sorted_map(steps in prop::collection::vec(
            (0u32..20, prop::option::of(0u8..10)), 1..300,
        )) {
            let mut heap = Heap::for_ids(20);
            let mut map = BTreeMap::new();
            for (id, key) in steps {
                match key {
                    Some(key) => {
                        heap.set(id, f64::from(key));
                        map.insert(id, key);
                    }
                    None => {
                        heap.remove(id);
                        map.remove(&id);
                    }
                }
                let least = map.iter().map(|(id, key)| (*key, *id)).min();
                let least = least.map(|(key, id)| (f64::from(key), id));
                prop_assert_eq!(heap.first(), least);
            }
        }
    }
}
