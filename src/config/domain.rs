//! Files together: which domain is where, and what can be seen only once all of it is there.

use super::{
    Diagnostic, Options, Place,
    diagnostic::{Report, shown},
    file::File,
    sibling::{self, Sibling},
};
use crate::rules::{Descriptor, Domain, LEASE_KEY};
use std::collections::{HashMap, HashSet, hash_map::Entry};

/// A domain under construction.
#[derive(Debug, Default)]
struct Joined {
    name: Option<String>,
    descriptors: Vec<Sibling>,
    replaced: Vec<(String, Place)>,
}

/// Makes domains of files.
pub(super) fn join(files: Vec<File>, options: &Options, report: &mut Report<'_>) -> Vec<Domain> {
    let mut joined: Vec<Joined> = Vec::new();
    let mut seen: HashMap<String, (Place, usize)> = HashMap::new();
    for File { domain, descriptors, replaced } in files {
        let mut into = joined.len();
        let name = domain.map(|(name, place)| {
            match seen.entry(name.clone()) {
                Entry::Vacant(vacant) => {
                    vacant.insert((place, into));
                }
                Entry::Occupied(first) if options.merge_domains => into = first.get().1,
                Entry::Occupied(first) => twice(&name, place, first.get().0, report),
            }
            name
        });
        if into == joined.len() {
            joined.push(Joined { name, ..Joined::default() });
        }
        if let Some(domain) = joined.get_mut(into) {
            domain.descriptors.extend(descriptors);
            domain.replaced.extend(replaced);
        }
    }
    joined.into_iter().filter_map(|domain| finish(domain, report)).collect()
}

fn finish(domain: Joined, report: &mut Report<'_>) -> Option<Domain> {
    sibling::check(&domain.descriptors, report);
    let descriptors: Vec<_> = domain.descriptors.into_iter().map(|it| it.descriptor).collect();
    // A limit that was given up for an error may have had the name.
    if !report.has_errors() {
        check_replaced(&descriptors, &domain.replaced, report);
    }
    let lease_key = LEASE_KEY.to_owned();
    Some(Domain { name: domain.name?, lease_key, pools: Vec::new(), descriptors })
}

fn twice(name: &str, second: Place, first: Place, report: &mut Report<'_>) {
    let where_first = report.describe(first, second);
    report.push(
        Diagnostic::error(
            second,
            format!("the domain {} stands in two files, first {where_first}", shown(name)),
        )
        .help("put all of its descriptors into one file, or set MERGE_DOMAIN_CONFIG=true")
        .key("domain")
        .related(first, "first here"),
    );
}

/// Warns of a name under `replaces` that no limit has.
fn check_replaced(
    descriptors: &[Descriptor],
    replaced: &[(String, Place)],
    report: &mut Report<'_>,
) {
    if replaced.is_empty() {
        return;
    }
    let mut names = HashSet::new();
    collect_names(descriptors, &mut names);
    for (name, place) in replaced.iter().filter(|(name, _)| !names.contains(name.as_str())) {
        report.push(
            Diagnostic::warning(
                *place,
                format!("no limit of this domain is called {}", shown(name)),
            )
            .help("give the limit that is to be replaced this `name`, or remove the line")
            .key("replaces"),
        );
    }
}

fn collect_names<'a>(descriptors: &'a [Descriptor], names: &mut HashSet<&'a str>) {
    for descriptor in descriptors {
        names.extend(descriptor.limits.iter().filter_map(|rule| rule.name.as_deref()));
        collect_names(&descriptor.descriptors, names);
    }
}
