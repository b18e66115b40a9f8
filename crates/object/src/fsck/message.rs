//! git's names for what can be wrong, how much each matters, and what to say of it.

use std::fmt;

/// How much a finding matters.
///
/// git prints `Info` as a warning and `Fatal` as an error; the two differ from those in what may be made of them, see
/// [`Severities`](super::Severities).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Not told at all.
    Ignore,
    /// Told; stays harmless where warnings count as errors.
    Info,
    /// Told; an error where git is strict, which it is with objects from elsewhere.
    Warn,
    /// The object is refused.
    Error,
    /// The object is refused, and no configuration changes that.
    Fatal,
}

impl Severity {
    /// Whether an object of which this is said is refused.
    #[inline]
    pub const fn is_error(self) -> bool {
        matches!(self, Severity::Error | Severity::Fatal)
    }
}

macro_rules! messages {
    ($($variant:ident $name:literal $severity:ident $text:literal,)*) => {
        /// What is wrong, by git's names (git-fsck, "FSCK MESSAGES").
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum MessageId {
            $(#[doc = concat!("`", $name, "`: ", $text, ".")] $variant,)*
        }

        impl MessageId {
            /// All of them, by name.
            pub const ALL: &'static [MessageId] = &[$(MessageId::$variant,)*];

            /// git's name, in camel case.
            pub const fn name(self) -> &'static str {
                match self { $(MessageId::$variant => $name,)* }
            }

            /// How much it matters to git unless it is told otherwise.
            pub const fn default_severity(self) -> Severity {
                match self { $(MessageId::$variant => Severity::$severity,)* }
            }

            /// What it is, in a few words; what differs from object to object is a [`Detail`](super::Detail).
            pub const fn text(self) -> &'static str {
                match self { $(MessageId::$variant => $text,)* }
            }
        }
    };
}

messages! {
    BadDate "badDate" Error "invalid author/committer line - bad date",
    BadDateOverflow "badDateOverflow" Error "invalid author/committer line - date causes integer overflow",
    BadEmail "badEmail" Error "invalid author/committer line - bad email",
    BadFilemode "badFilemode" Info "contains bad file modes",
    BadName "badName" Error "invalid author/committer line - bad name",
    BadObjectSha1 "badObjectSha1" Error "invalid 'object' line format - bad sha1",
    BadParentSha1 "badParentSha1" Error "invalid 'parent' line format - bad sha1",
    BadRefFiletype "badRefFiletype" Error "bad file type of a ref",
    BadRefName "badRefName" Error "invalid refname format",
    BadTagName "badTagName" Info "invalid 'tag' name",
    BadTimezone "badTimezone" Error "invalid author/committer line - bad time zone",
    BadTree "badTree" Error "cannot be parsed as a tree",
    BadTreeSha1 "badTreeSha1" Error "invalid 'tree' line format - bad sha1",
    BadType "badType" Error "invalid 'type' value",
    DuplicateEntries "duplicateEntries" Error "contains duplicate file entries",
    EmptyName "emptyName" Warn "contains empty pathname",
    ExtraHeaderEntry "extraHeaderEntry" Ignore "invalid format - extra header(s) after 'tagger'",
    FullPathname "fullPathname" Warn "contains full pathnames",
    GitattributesBlob "gitattributesBlob" Error "non-blob found at .gitattributes",
    GitattributesLarge "gitattributesLarge" Error ".gitattributes too large to parse",
    GitattributesLineLength "gitattributesLineLength" Error ".gitattributes has too long lines to parse",
    GitattributesMissing "gitattributesMissing" Error "unable to read .gitattributes blob",
    GitattributesSymlink "gitattributesSymlink" Info ".gitattributes is a symlink",
    GitignoreSymlink "gitignoreSymlink" Info ".gitignore is a symlink",
    GitmodulesBlob "gitmodulesBlob" Error "non-blob found at .gitmodules",
    GitmodulesLarge "gitmodulesLarge" Error ".gitmodules too large to parse",
    GitmodulesMissing "gitmodulesMissing" Error "unable to read .gitmodules blob",
    GitmodulesName "gitmodulesName" Error "disallowed submodule name",
    GitmodulesParse "gitmodulesParse" Info "could not parse gitmodules blob",
    GitmodulesPath "gitmodulesPath" Error "disallowed submodule path",
    GitmodulesSymlink "gitmodulesSymlink" Error ".gitmodules is a symbolic link",
    GitmodulesUpdate "gitmodulesUpdate" Error "disallowed submodule update setting",
    GitmodulesUrl "gitmodulesUrl" Error "disallowed submodule url",
    HasDot "hasDot" Warn "contains '.'",
    HasDotdot "hasDotdot" Warn "contains '..'",
    HasDotgit "hasDotgit" Warn "contains '.git'",
    LargePathname "largePathname" Warn "contains excessively large pathname",
    MailmapSymlink "mailmapSymlink" Info ".mailmap is a symlink",
    MissingAuthor "missingAuthor" Error "invalid format - expected 'author' line",
    MissingCommitter "missingCommitter" Error "invalid format - expected 'committer' line",
    MissingEmail "missingEmail" Error "invalid author/committer line - missing email",
    MissingNameBeforeEmail "missingNameBeforeEmail" Error "invalid author/committer line - missing space before email",
    MissingObject "missingObject" Error "invalid format - expected 'object' line",
    MissingSpaceBeforeDate "missingSpaceBeforeDate" Error "invalid author/committer line - missing space before date",
    MissingSpaceBeforeEmail "missingSpaceBeforeEmail" Error
        "invalid author/committer line - missing space before email",
    MissingTag "missingTag" Error "invalid format - unexpected end after 'type' line",
    MissingTagEntry "missingTagEntry" Error "invalid format - expected 'tag' line",
    MissingTaggerEntry "missingTaggerEntry" Info "invalid format - expected 'tagger' line",
    MissingTree "missingTree" Error "invalid format - expected 'tree' line",
    MissingType "missingType" Error "invalid format - unexpected end after 'type' line",
    MissingTypeEntry "missingTypeEntry" Error "invalid format - expected 'type' line",
    MultipleAuthors "multipleAuthors" Error "invalid format - multiple 'author' lines",
    NulInCommit "nulInCommit" Warn "NUL byte in the commit object body",
    NulInHeader "nulInHeader" Fatal "unterminated header",
    NullSha1 "nullSha1" Warn "contains entries pointing to null sha1",
    TreeNotSorted "treeNotSorted" Error "not properly sorted",
    UnknownType "unknownType" Error "unknown type",
    UnterminatedHeader "unterminatedHeader" Fatal "unterminated header",
    ZeroPaddedDate "zeroPaddedDate" Error "invalid author/committer line - zero-padded date",
    ZeroPaddedFilemode "zeroPaddedFilemode" Warn "contains zero-padded file modes",
}

impl MessageId {
    /// The one of that name, whatever its case.
    pub fn from_name(name: &[u8]) -> Option<MessageId> {
        Self::ALL.iter().copied().find(|id| id.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
