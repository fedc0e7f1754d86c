//! Every mistake, with its words and its place.
