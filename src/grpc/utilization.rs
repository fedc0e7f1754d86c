//! `UtilizationService`: what workers report of themselves, one by one or in a stream.

use super::{
    LARGEST_OTHER_MESSAGE, Undecided, Unsent,
    lease::until_closed,
    proto::{
        tollgate::v1::{
            ReportUtilizationRequest, ReportUtilizationResponse,
            report_utilization_request::Load as WireLoad, utilization_service_server,
        },
        xds::data::orca::v3::OrcaLoadReport,
    },
    request::InvalidRequest,
    response::write_duration,
    unsent,
};
use crate::{
    decider::{Decider, Saying},
    telemetry::{Method, Observer},
    unit::WHOLE_PARTS,
    worker::{Instant, InvalidLoad, Load, Reported, Settings},
};
use http::HeaderMap;
use std::sync::Arc;
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

/// The full name of the service.
pub const SERVICE: &str = utilization_service_server::SERVICE_NAME;

/// The server of the service.
pub type Server = utilization_service_server::UtilizationServiceServer<Reports>;

/// The longest name of a worker, in bytes.
const LONGEST_NAME: usize = 256;

/// Takes in reports.
#[derive(Debug, Clone)]
pub struct Reports {
    decider: Arc<Decider>,
    /// Closed when the server stops: streams end then.
    stopped: watch::Receiver<()>,
    observer: Observer,
}

impl Reports {
    /// A service that tells this decider. Its streams end when `stopped` closes.
    pub fn new(decider: Arc<Decider>, stopped: watch::Receiver<()>) -> Self {
        Self { decider, stopped, observer: Observer::default() }
    }

    /// The same with somebody who looks on.
    #[must_use]
    pub fn observed(self, observer: Observer) -> Self {
        Self { observer, ..self }
    }

    /// The service for a gRPC server.
    pub fn into_server(self) -> Server {
        Server::new(self).max_decoding_message_size(LARGEST_OTHER_MESSAGE)
    }
}

#[tonic::async_trait]
impl utilization_service_server::UtilizationService for Reports {
    async fn report_utilization(
        &self,
        request: Request<ReportUtilizationRequest>,
    ) -> Result<Response<ReportUtilizationResponse>, Status> {
        let (metadata, _, report) = request.into_parts();
        Ok(Response::new(self.answer(report, metadata.as_ref()).await?))
    }

    type StreamUtilizationStream = Unsent<Result<ReportUtilizationResponse, Status>>;

    async fn stream_utilization(
        &self,
        request: Request<Streaming<ReportUtilizationRequest>>,
    ) -> Result<Response<Self::StreamUtilizationStream>, Status> {
        /// Of answers that nobody reads, so many wait.
        const UNREAD: usize = 4;
        let (answers, sent) = unsent(UNREAD);
        let (this, mut stopped) = (self.clone(), self.stopped.clone());
        let mut reports = request.into_inner();
        tokio::spawn(async move {
            loop {
                let report = tokio::select! {
                    report = reports.message() => report,
                    () = answers.closed() => return,
                    () = until_closed(&mut stopped) => {
                        Err(Status::unavailable("the server is leaving: report to another"))
                    }
                };
                let answer = match report {
                    Ok(Some(report)) => this.answer(report, &HeaderMap::new()).await,
                    Ok(None) => return,
                    Err(status) => Err(status),
                };
                match answer {
                    // A worker that does not read is heard all the same: what it does not read is left out.
                    Ok(answer) => {
                        let _ = answers.try_send(Box::new(Ok(answer)));
                    }
                    Err(status) => {
                        // Where nobody listens any more, nobody is to be told.
                        let _ = answers.send(Box::new(Err(status))).await;
                        return;
                    }
                }
            }
        });
        Ok(Response::new(sent))
    }
}

impl Reports {
    async fn answer(
        &self,
        message: ReportUtilizationRequest,
        headers: &HeaderMap,
    ) -> Result<ReportUtilizationResponse, Status> {
        let underway = self.observer.begin(Method::Report, headers);
        let saying = read_saying(message).map_err(Undecided::from)?;
        let reported = underway.during(self.decider.report(&saying)).await;
        let (reported, settings) = reported.map_err(Undecided::from)?;
        Ok(write_reported(&saying, &reported, &settings))
    }
}

fn read_saying(message: ReportUtilizationRequest) -> Result<Saying, InvalidRequest> {
    let ReportUtilizationRequest { domain, pool, worker_id, total_slots, load, measured_at } =
        message;
    for (field, text) in [("domain", &domain), ("pool", &pool), ("worker_id", &worker_id)] {
        if text.is_empty() {
            return Err(InvalidRequest::Empty { field });
        }
    }
    if worker_id.len() > LONGEST_NAME {
        return Err(InvalidRequest::LongName { length: worker_id.len() });
    }
    let load = load.ok_or(InvalidRequest::NoLoad)?;
    Ok(Saying {
        domain,
        pool,
        worker: worker_id,
        load: read_load(&load, total_slots)?,
        measured: measured_at.as_ref().map(read_instant).transpose()?,
    })
}

fn read_load(load: &WireLoad, total_slots: u32) -> Result<Option<Load>, InvalidLoad> {
    // Whoever has no slots to speak of counts as one.
    let slots = total_slots.max(1);
    match load {
        WireLoad::BusySlots(busy) => Load::of_slots(*busy, total_slots).map(Some),
        WireLoad::Ratio(ratio) => Load::of_ratio(*ratio, slots, "ratio").map(Some),
        // Whoever says how many slots it has says something, though all of them are idle.
        WireLoad::Orca(report) => match read_orca(report, slots)? {
            None if total_slots > 0 => Load::of_slots(0, total_slots).map(Some),
            load => Ok(load),
        },
    }
}

/// `None` where all that counts is 0.
fn read_orca(report: &OrcaLoadReport, slots: u32) -> Result<Option<Load>, InvalidLoad> {
    let application = (report.application_utilization, "orca.application_utilization");
    let cpu = (report.cpu_utilization, "orca.cpu_utilization");
    let named = report.utilization.values().map(|named| (*named, "orca.utilization"));
    // All of it is looked at: half of a report that is wrong is not right.
    let mut highest = Load::of_ratio(cpu.0, slots, cpu.1)?;
    for (utilization, field) in named {
        let load = Load::of_ratio(utilization, slots, field)?;
        if load.utilization_parts() > highest.utilization_parts() {
            highest = load;
        }
    }
    let own = Load::of_ratio(application.0, slots, application.1)?;
    let load = if application.0 > 0.0 { own } else { highest };
    Ok((load.utilization_parts() > 0).then_some(load))
}

fn read_instant(measured_at: &prost_types::Timestamp) -> Result<Instant, InvalidRequest> {
    let seconds = u64::try_from(measured_at.seconds).ok();
    let micros = u64::try_from(measured_at.nanos).ok().map(|nanos| nanos / 1_000);
    let micros = seconds.and_then(|it| it.checked_mul(1_000_000)?.checked_add(micros?));
    // As far as a Lua number counts microseconds.
    let micros = micros.filter(|micros| (1..1 << 53).contains(micros));
    micros.map(Instant::of_micros).ok_or(InvalidRequest::NoInstant)
}

fn write_reported(
    saying: &Saying,
    reported: &Reported,
    settings: &Settings,
) -> ReportUtilizationResponse {
    let parts = f64::from(WHOLE_PARTS);
    #[expect(clippy::cast_precision_loss, reason = "an amount is far below 2^53")]
    let shedding = reported.amount_parts as f64 / parts;
    ReportUtilizationResponse {
        counted: saying.load.is_some(),
        utilization: reported.utilization_parts.map(|utilization| f64::from(utilization) / parts),
        shedding,
        workers: u32::try_from(reported.workers).unwrap_or(u32::MAX),
        report_again_after: Some(write_duration(settings.report_again_us())),
    }
}
