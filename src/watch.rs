//! `--watch`: asks a running server every second, and shows what it answers.

use crate::{
    arguments::Admin,
    ask::{Format, NoAnswer, NotShown, Question, Server, ask, print, with_newline},
    redraw,
};
use std::{
    io::{self, IsTerminal as _, Write as _, stderr, stdout},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{self, MissedTickBehavior},
};

/// How often it is asked.
const AGAIN: Duration = Duration::from_secs(1);

/// Shows the answers to a question, until Ctrl-C. The title says what of the server they are.
pub(crate) async fn show(admin: &Admin, title: &str, question: &Question) -> Result<(), NotShown> {
    let server = Server::new(admin)?;
    let shown = if question.format == Format::Text && stdout().is_terminal() {
        redraw_forever(&server, title, question).await
    } else {
        print_forever(&server, question).await
    };
    match shown {
        // Whoever closed the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        shown => Ok(shown?),
    }
}

/// Draws every view in the place of the last, until Ctrl-C. An error takes the place of a view: what was so
/// may not be so any more.
async fn redraw_forever(server: &Server, title: &str, question: &Question) -> io::Result<()> {
    let mut answers = Answers::new(server, question)?;
    print(redraw::CLEAR)?;
    while let Some(answer) = answers.next().await {
        let view = match answer {
            Ok(view) => view,
            Err(error) => format!("error: {error}\n\nTrying again every second.\n"),
        };
        let address = &server.address;
        let screen = format!("{title} of {address}, every second. Ctrl-C ends it.\n\n{view}");
        print(&redraw::frame(&screen, redraw::size()))?;
    }
    Ok(())
}

/// Prints one view after the other, until Ctrl-C. Errors go where they disturb no reader of views, and are
/// not repeated.
async fn print_forever(server: &Server, question: &Question) -> io::Result<()> {
    let mut answers = Answers::new(server, question)?;
    let mut told = None;
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(view) => {
                let gap = if question.format == Format::Text { "\n" } else { "" };
                print(&format!("{}{gap}", with_newline(view)))?;
                told = None;
            }
            Err(error) => {
                let error = error.to_string();
                if told.as_ref() != Some(&error) {
                    // Where stderr is gone there is nobody left to tell.
                    let _ = writeln!(stderr(), "error: {error}; trying again every second");
                }
                told = Some(error);
            }
        }
    }
    Ok(())
}

/// Answers to a question that is asked again and again.
struct Answers<'a> {
    server: &'a Server,
    question: &'a Question,
    ticks: time::Interval,
    interrupt: tokio::signal::unix::Signal,
}

impl<'a> Answers<'a> {
    /// From now on Ctrl-C ends the answers, and not the process.
    fn new(server: &'a Server, question: &'a Question) -> io::Result<Self> {
        let mut ticks = time::interval(AGAIN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { server, question, ticks, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next one; `None` after Ctrl-C.
    async fn next(&mut self) -> Option<Result<String, NoAnswer>> {
        let answer = async {
            self.ticks.tick().await;
            ask(self.server, self.question).await
        };
        tokio::select! {
            answer = answer => Some(answer),
            _ = self.interrupt.recv() => None,
        }
    }
}
