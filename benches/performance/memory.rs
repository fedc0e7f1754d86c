//! What a decision costs with states in memory, beside a server that always gives the same answer.

use super::{
    Failure, Proof, median, number,
    program::{Program, descriptor, figure, rules},
    proofs,
};

/// How often all take their turn, and for how long.
const ROUNDS: usize = 7;
const DURATION: &str = "3s";

/// A server, and what it is asked.
struct Candidate {
    what: &'static str,
    program: Program,
    arguments: Vec<String>,
    rates: Vec<f64>,
    cpu: Vec<f64>,
    own_cpu: Vec<f64>,
}

impl Candidate {
    fn new(what: &'static str, program: Program, plans: usize, descriptors: u32) -> Self {
        let arguments = [
            "--duration".to_owned(),
            DURATION.to_owned(),
            "--descriptor".to_owned(),
            descriptor(plans),
            "--descriptors".to_owned(),
            descriptors.to_string(),
        ];
        let [rates, cpu, own_cpu] = Default::default();
        Self { what, program, arguments: arguments.into(), rates, cpu, own_cpu }
    }

    fn take_turn(&mut self) -> Result<(), Failure> {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let measured = self.program.load(&arguments)?;
        self.rates.push(figure(&measured, &["per_second"])?);
        self.cpu.push(figure(&measured, &["cpu_us", "server"])?);
        self.own_cpu.push(figure(&measured, &["cpu_us", "load"])?);
        Ok(())
    }

    /// How much more CPU a decision costs than the other's, round by round.
    fn beside(&self, other: &Self) -> f64 {
        median(self.cpu.iter().zip(&other.cpu).map(|(mine, other)| mine / other).collect())
    }
}

/// Has all take turns; the table of what they did.
fn take_turns(candidates: &mut [Candidate]) -> Result<String, Failure> {
    for _ in 0..ROUNDS {
        for candidate in &mut *candidates {
            candidate.take_turn()?;
        }
    }
    let mut table =
        "| closed loop, 4 connections × 32 streams | requests/s | server CPU, µs | `tollgate load`'s CPU, µs |\n|---|---|---|---|\n"
            .to_owned();
    for Candidate { what, rates, cpu, own_cpu, .. } in candidates {
        let [rate, cpu, own_cpu] =
            [rates, cpu, own_cpu].map(|figures| number(median(figures.clone())));
        table += &format!("| {what} | {rate} | {cpu} | {own_cpu} |\n");
    }
    Ok(table)
}

/// One descriptor of two entries, 10,000 keys, few rules and many.
pub(crate) fn measure() -> Result<String, Failure> {
    let candidate = |what, plans| {
        Ok::<_, Failure>(Candidate::new(what, Program::serve(&rules(plans), None)?, plans, 1))
    };
    let mut candidates = [
        Candidate::new("always the same answer", Program::null()?, 10, 1),
        candidate("10 rules", 10)?,
        candidate("10,000 rules", 10_000)?,
    ];
    let table = take_turns(&mut candidates)?;
    let [null, few, many] = &candidates;
    let proof =
        |what, target, measured| Proof { what, target, at_least: false, measured, unit: "" };
    let proofs = proofs(&[
        proof(
            "CPU per decision with 10 rules ÷ that of the constant answer",
            1.3,
            few.beside(null),
        ),
        proof(
            "CPU per decision with 10,000 rules ÷ that of the constant answer",
            1.3,
            many.beside(null),
        ),
        proof("CPU per decision with 10,000 rules ÷ with 10", 1.1, many.beside(few)),
    ]);
    Ok(format!("{proofs}\n{table}"))
}

/// Five descriptors beside one.
pub(crate) fn measure_descriptors() -> Result<String, Failure> {
    let candidate = |what, descriptors| {
        Ok::<_, Failure>(Candidate::new(what, Program::serve(&rules(10), None)?, 10, descriptors))
    };
    let mut candidates = [candidate("one descriptor", 1)?, candidate("five descriptors", 5)?];
    let table = take_turns(&mut candidates)?;
    let [one, five] = &candidates;
    let proofs = proofs(&[Proof {
        what: "CPU per request with five descriptors ÷ with one",
        target: 2.0,
        at_least: false,
        measured: five.beside(one),
        unit: "",
    }]);
    Ok(format!("{proofs}\n{table}"))
}
