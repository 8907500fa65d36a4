//! The Mersenne Twister, for what has to draw the numbers that Python's `random.Random` draws.

const WORDS: usize = 624;
const SHIFT: usize = 397;
/// What the authors' seeding by a key begins with.
const FIRST_SEED: u32 = 19_650_218;
const MATRIX: u32 = 0x9908_b0df;
const UPPER: u32 = 0x8000_0000;

/// MT19937 (Matsumoto and Nishimura 1998), seeded as Python seeds it: a seed gives the same numbers
/// in both.
#[derive(Clone, Debug)]
pub struct MersenneTwister {
    state: Box<[u32; WORDS]>,
    next: usize,
}

impl MersenneTwister {
    /// The generator of an integer seed.
    pub fn of_seed(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        if high == 0 { Self::of_key(&[low]) } else { Self::of_key(&[low, high]) }
    }

    /// The generator of a seed of any length, its lowest word first; no words are a zero.
    pub fn of_key(key: &[u32]) -> Self {
        let key = if key.is_empty() { &[0] } else { key };
        let mut state = Box::new([FIRST_SEED; WORDS]);
        for at in 1..WORDS {
            state[at] = mixed(state[at - 1], 1_812_433_253).wrapping_add(at as u32);
        }
        let mut at = 1;
        for number in 0..WORDS.max(key.len()) {
            let word = number % key.len();
            let added = key[word].wrapping_add(word as u32);
            state[at] = (state[at] ^ mixed(state[at - 1], 1_664_525)).wrapping_add(added);
            at = following(&mut state, at);
        }
        for _ in 1..WORDS {
            state[at] = (state[at] ^ mixed(state[at - 1], 1_566_083_941)).wrapping_sub(at as u32);
            at = following(&mut state, at);
        }
        state[0] = UPPER;
        Self { state, next: WORDS }
    }

    /// Uniform in [0, 1), with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        let (high, low) = (self.word() >> 5, self.word() >> 6);
        (f64::from(high) * f64::from(1 << 26) + f64::from(low)) / (1u64 << 53) as f64
    }

    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.renew();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    fn renew(&mut self) {
        for at in 0..WORDS {
            let both = self.state[at] & UPPER | self.state[(at + 1) % WORDS] & !UPPER;
            let twist = if both & 1 == 0 { 0 } else { MATRIX };
            self.state[at] = self.state[(at + SHIFT) % WORDS] ^ both >> 1 ^ twist;
        }
        self.next = 0;
    }
}

fn mixed(word: u32, factor: u32) -> u32 {
    (word ^ word >> 30).wrapping_mul(factor)
}

/// The place after `at`; the first word, which is before the second, follows the last.
fn following(state: &mut [u32; WORDS], at: usize) -> usize {
    if at + 1 < WORDS {
        return at + 1;
    }
    state[0] = state[WORDS - 1];
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_that_the_authors_publish() {
        // The beginning and the end of the 1000 words of mt19937ar.out.
        let mut random = MersenneTwister::of_key(&[0x123, 0x234, 0x345, 0x456]);
        let words: Vec<u32> = (0..1_000).map(|_| random.word()).collect();
        assert_eq!(words[..3], [1_067_595_299, 955_945_823, 477_289_528]);
        assert_eq!(words[997..], [2_416_995_901, 1_397_735_321, 3_460_025_646]);
    }

    #[test]
    fn units_are_those_of_python() {
        // random.Random(seed).random() of CPython 3.11.
        let first = |seed| MersenneTwister::of_seed(seed).unit();
        assert_eq!(first(0), 0.8444218515250481);
        assert_eq!(first(1), 0.13436424411240122);
        assert_eq!(first(1_099_511_627_783), 0.6137037779936511);
    }
}
