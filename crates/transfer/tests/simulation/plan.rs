//! What a run consists of, drawn from its seed; faults can be left out one by one, which is how a
//! failure is made small.

use weir_random::Random;
use weir_transfer::wire::CHUNK_SIZE;
use weir_transfer::{HashKind, LowerClass, Spare};
use weir_units::Rate;

use crate::kernel::{MILLISECOND_NS, SECOND_NS};

/// Which way the files go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Send,
    Get,
}

/// A file of the source.
#[derive(Clone, Debug)]
pub(crate) struct FilePlan {
    pub(crate) path: String,
    pub(crate) size: u64,
    /// What another sender has under this name.
    pub(crate) rival_size: u64,
    pub(crate) sparse: bool,
    /// The destination has another content under this name.
    pub(crate) older: bool,
    /// The destination has a directory under this name.
    pub(crate) obstacle: bool,
    pub(crate) mode: u32,
}

/// When something happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// At so many calls to the kernel.
    Step(u64),
    /// So long after the start.
    Time(u64),
}

/// Which end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

/// How a source changes while it is being sent, or between two attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Rewritten,
    /// The new content has the old one's size and modification time.
    RewrittenInSecret,
    /// The file itself is written to, while others may read it.
    RewrittenInPlace,
    Appended,
    Shortened,
}

/// What happens to a run.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The server is killed and comes back.
    KillServer {
        when: When,
        back_ns: u64,
    },
    KillClient {
        when: When,
    },
    /// Both at once, as when a machine room goes dark; the files stay, or one has changed when
    /// all is up again.
    KillBoth {
        when: When,
        change: Option<(usize, Change)>,
    },
    /// The machine that receives loses power, and perhaps the other one with it. The server comes
    /// back.
    PowerLoss {
        when: When,
        both: bool,
        back_ns: u64,
    },
    /// Both lose power once the first attempt is over.
    PowerLossAtEnd,
    Cut {
        when: When,
        share: f64,
    },
    Silence {
        when: When,
        span_ns: u64,
    },
    /// Routers let nothing of the lower class through.
    Starved {
        when: When,
        span_ns: u64,
    },
    /// Links are cut, and for a while the name of the server is not known.
    Nameless {
        when: When,
        span_ns: u64,
    },
    ShortCalls {
        chance: f64,
    },
    DiskFull {
        role: Role,
        when: When,
        span_ns: u64,
    },
    /// Writes, reads or both fail.
    DiskErrors {
        role: Role,
        when: When,
        span_ns: u64,
        chance: f64,
    },
    SyncFails {
        role: Role,
        chance: f64,
    },
    /// The receiver's storage keeps something else than was written, and says nothing.
    Damages {
        chance: f64,
    },
    SourceChanges {
        when: When,
        file: usize,
        change: Change,
    },
    Flips {
        chance: f64,
    },
    Doubled {
        chance: f64,
    },
    Lost {
        chance: f64,
    },
    Swapped {
        chance: f64,
    },
    ClockStep {
        when: When,
        by_ns: i64,
    },
    /// Another client sends other content to the same names at the same time.
    Rival {
        when: When,
    },
}

impl Fault {
    /// Whether it happens after the first attempt.
    pub(crate) fn is_at_end(&self) -> bool {
        matches!(self, Self::PowerLossAtEnd)
    }

    /// When it happens; what has no time of its own lasts from the start.
    pub(crate) fn when(&self) -> When {
        match self {
            Self::KillServer { when, .. }
            | Self::KillClient { when }
            | Self::KillBoth { when, .. }
            | Self::PowerLoss { when, .. }
            | Self::Nameless { when, .. }
            | Self::Cut { when, .. }
            | Self::Silence { when, .. }
            | Self::Starved { when, .. }
            | Self::DiskFull { when, .. }
            | Self::DiskErrors { when, .. }
            | Self::SourceChanges { when, .. }
            | Self::ClockStep { when, .. }
            | Self::Rival { when } => *when,
            _ => When::Step(0),
        }
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) way: Way,
    pub(crate) single: bool,
    pub(crate) hash: HashKind,
    pub(crate) sync: bool,
    pub(crate) checksum: bool,
    pub(crate) read_back: bool,
    pub(crate) tls: bool,
    pub(crate) streams: u16,
    /// Zero leaves all to the spare connections, where there are any.
    pub(crate) rate: Rate,
    pub(crate) spare: Option<Spare>,
    pub(crate) retry_ns: u64,
    pub(crate) files: Vec<FilePlan>,
    pub(crate) faults: Vec<Fault>,
}

fn chance_of(random: &mut Random, choices: &[f64]) -> f64 {
    choices[random.up_to(choices.len() as u64 - 1) as usize]
}

fn when(random: &mut Random) -> When {
    match random.up_to(3) {
        0 => When::Time(random.up_to(3 * SECOND_NS)),
        _ => When::Step(random.up_to(1500)),
    }
}

fn span(random: &mut Random) -> u64 {
    [100, 2_000, 12_000, 45_000][random.up_to(3) as usize] * MILLISECOND_NS
}

fn role(random: &mut Random) -> Role {
    if random.chance(0.5) { Role::Server } else { Role::Client }
}

fn file(random: &mut Random, index: usize, single: bool) -> FilePlan {
    let sizes =
        [0, 1, 5_000, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 2 * CHUNK_SIZE, 3 << 20, 9 << 19];
    let folder = ["", "", "a/", "a/b/"][random.up_to(3) as usize];
    let mut draw = || sizes[random.up_to(sizes.len() as u64 - 1) as usize];
    let (size, other) = (draw(), draw());
    FilePlan {
        path: if single { "f0".to_owned() } else { format!("{folder}f{index}") },
        size,
        rival_size: if random.chance(0.5) { size } else { other },
        sparse: random.chance(0.2),
        older: random.chance(0.2),
        // A single file that meets a directory goes into it.
        obstacle: random.chance(0.03) && !single,
        mode: [0o644, 0o644, 0o664, 0o444][random.up_to(3) as usize],
    }
}

fn change(random: &mut Random, files: usize) -> (usize, Change) {
    use Change::{Appended, Rewritten, RewrittenInPlace, RewrittenInSecret, Shortened};
    let changes = [
        RewrittenInSecret,
        RewrittenInSecret,
        Rewritten,
        RewrittenInPlace,
        RewrittenInPlace,
        Appended,
        Shortened,
    ];
    let file = random.up_to(files as u64 - 1) as usize;
    (file, changes[random.up_to(6) as usize])
}

fn fault(random: &mut Random, files: usize) -> Fault {
    let rare = [0.001, 0.01, 0.1];
    match random.up_to(24) {
        0 => Fault::KillServer { when: when(random), back_ns: span(random) },
        1 => Fault::KillClient { when: when(random) },
        2 | 3 | 17 | 18 => {
            let when = when(random);
            let change = random.chance(0.6).then(|| change(random, files));
            Fault::KillBoth { when, change }
        }
        4 => Fault::Cut { when: when(random), share: chance_of(random, &[0.2, 0.5, 1.0]) },
        5 => Fault::Silence { when: when(random), span_ns: span(random) },
        6 => Fault::Nameless { when: when(random), span_ns: span(random) },
        7 => Fault::ShortCalls { chance: chance_of(random, &[0.05, 0.5]) },
        8 => Fault::DiskFull { role: role(random), when: when(random), span_ns: span(random) },
        9 | 10 => Fault::DiskErrors {
            role: role(random),
            when: when(random),
            span_ns: span(random),
            chance: chance_of(random, &[0.02, 0.2, 1.0]),
        },
        11 => Fault::SyncFails { role: role(random), chance: chance_of(random, &[0.2, 1.0]) },
        12 | 13 => {
            let when = when(random);
            let (file, change) = change(random, files);
            Fault::SourceChanges { when, file, change }
        }
        14 => Fault::Flips { chance: chance_of(random, &rare) },
        15 => match random.up_to(2) {
            0 => Fault::Doubled { chance: chance_of(random, &rare) },
            1 => Fault::Lost { chance: chance_of(random, &rare) },
            _ => Fault::Swapped { chance: chance_of(random, &rare) },
        },
        16 => {
            let by_ns = (random.up_to(7_200) as i64 - 3_600) * SECOND_NS as i64;
            Fault::ClockStep { when: when(random), by_ns }
        }
        19..=22 => match random.up_to(3) {
            0 => Fault::PowerLossAtEnd,
            _ => {
                let (when, both) = (when(random), random.chance(0.7));
                Fault::PowerLoss { when, both, back_ns: span(random) }
            }
        },
        _ => Fault::Rival { when: when(random) },
    }
}

impl Plan {
    /// The run of a seed, without the faults numbered in `without`.
    pub(crate) fn new(seed: u64, without: &[usize]) -> Self {
        let random = &mut Random::of_source(seed, &["plan"]);
        let single = random.chance(0.3);
        let count = if single { 1 } else { 1 + random.up_to(5) as usize };
        let files: Vec<FilePlan> = (0..count).map(|index| file(random, index, single)).collect();
        let way = if random.chance(0.6) { Way::Send } else { Way::Get };
        let hash = if random.chance(0.8) { HashKind::Blake3 } else { HashKind::None };
        let (sync, streams) = (random.chance(0.3), 1 + random.up_to(3) as u16);
        let retry_ns = [0, 30, 120][random.up_to(2) as usize] * SECOND_NS;
        let faults: Vec<Fault> = (0..random.up_to(4)).map(|_| fault(random, files.len())).collect();
        let tls = random.chance(0.15);
        let (checksum, read_back) = (random.chance(0.2), random.chance(0.2));
        let mut plan = Self {
            seed,
            way,
            single,
            hash,
            sync,
            checksum,
            read_back,
            tls,
            streams,
            rate: Rate::MAX,
            spare: None,
            retry_ns,
            files,
            faults,
        };
        plan.keep_honest();
        if plan.way == Way::Send {
            plan.add_spare(&mut Random::of_source(seed, &["spare"]));
        }
        if plan.read_back && random.chance(0.7) {
            plan.faults.push(Fault::Damages { chance: chance_of(random, &[0.01, 0.1, 1.0]) });
        }
        plan.faults = plan
            .faults
            .into_iter()
            .enumerate()
            .filter_map(|(index, fault)| (!without.contains(&index)).then_some(fault))
            .collect();
        plan
    }

    /// Some that send use what their path has left, and are starved of that now and then.
    fn add_spare(&mut self, random: &mut Random) {
        if random.chance(0.6) {
            return;
        }
        let class = if random.chance(0.5) { LowerClass::Le } else { LowerClass::Cs1 };
        let streams = 1 + random.up_to(2) as u16;
        let (rate, congestion) = (Rate::MAX, String::new());
        self.spare = Some(Spare { class, streams, rate, congestion, packet: None });
        let paused = random.chance(0.2);
        self.rate = Rate::from_bit_per_s(if paused { 0 } else { 1_000_000 });
        for _ in 0..random.up_to(2) {
            let span_ns =
                if random.chance(0.5) && !paused { 3_600 * SECOND_NS } else { span(random) };
            self.faults.push(Fault::Starved { when: when(random), span_ns });
        }
    }

    /// Without hashes nothing but TCP's own checksum finds a turned bit, and nothing at all a
    /// source that changed in secret between two attempts: neither is promised then.
    fn keep_honest(&mut self) {
        if self.hash == HashKind::Blake3 {
            return;
        }
        self.read_back = false;
        self.faults.retain(|fault| !matches!(fault, Fault::Flips { .. }));
        for fault in &mut self.faults {
            if let Fault::SourceChanges { change, .. }
            | Fault::KillBoth { change: Some((_, change)), .. } = fault
                && *change == Change::RewrittenInSecret
            {
                *change = Change::Rewritten;
            }
        }
    }

    /// Whether all that happens passes by within the time for which the client tries again.
    pub(crate) fn passes(&self) -> bool {
        let enough = |span_ns: &u64| span_ns + 25 * SECOND_NS < self.retry_ns;
        let obstacle = self.files.iter().any(|file| file.obstacle);
        !obstacle
            && self.faults.iter().all(|fault| match fault {
                Fault::Cut { .. } | Fault::ShortCalls { .. } | Fault::ClockStep { .. } => {
                    self.retry_ns > 0
                }
                // No more than a lower class must it be.
                Fault::Starved { .. } => true,
                Fault::PowerLossAtEnd => self.retry_ns > 0,
                Fault::PowerLoss { both: false, back_ns, .. } => {
                    self.way == Way::Send && enough(back_ns)
                }
                Fault::KillServer { back_ns: span_ns, .. }
                | Fault::Nameless { span_ns, .. }
                | Fault::DiskFull { span_ns, .. }
                | Fault::Silence { span_ns, .. } => enough(span_ns),
                _ => false,
            })
    }

    /// Whether nothing happens but that the lower class is starved, of which no promise depends.
    pub(crate) fn is_only_starved(&self) -> bool {
        self.rate > Rate::ZERO
            && self.faults.iter().all(|fault| matches!(fault, Fault::Starved { .. }))
    }

    /// Whether a machine loses power.
    pub(crate) fn loses_power(&self) -> bool {
        let power = |fault: &Fault| matches!(fault, Fault::PowerLoss { .. }) || fault.is_at_end();
        self.faults.iter().any(power)
    }

    /// Messages that vanish or change places leave an honest peer waiting: nothing is promised
    /// about the end, only about the files.
    pub(crate) fn may_hang(&self) -> bool {
        self.faults.iter().any(|fault| {
            matches!(fault, Fault::Lost { .. } | Fault::Swapped { .. } | Fault::Doubled { .. })
        })
    }
}
