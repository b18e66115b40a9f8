//! Public behaviour of packstone-revwalk, against git and against naive models.

mod golden;
mod graph_file;
mod history;
mod hostile;
mod limits;
mod objects;
mod props;
mod regressions;
