//! Git object ids (SHA-1 and SHA-256 at run time), hashers, kinds, and borrowed parsers of commits, trees and tags.
