//! Inputs that once were a problem, and seeds, through the bodies of the fuzz targets.

#[path = "../../fuzz/bodies.rs"]
pub(crate) mod bodies;
