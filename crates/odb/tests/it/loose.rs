//! Loose objects, well formed and not.

use std::fs;

use object::ObjectKind;
use packstone_odb::{ReadError, Store};
use testkit::pack::{deflate, object_id, write_loose, write_loose_raw};
use testkit::repo::noise;
use testkit::{Hash, TestRepo};

use crate::support::{id, options, read_all_ways, store};

#[test]
fn o1_truncated_files_are_errors_and_not_endless() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let objects = repo.objects_dir();
        for content in [noise(3000), noise(700_000)] {
            let name = object_id(hash, "blob", &content);
            let inflated = [format!("blob {}\0", content.len()).as_bytes(), &content].concat();
            for level in [0, 6] {
                let whole = deflate(&inflated, level);
                let almost = whole.len() - 1;
                for cut in [0, 1, 2, 10, 20, 100, 2000, whole.len() - 5, whole.len() - 4, almost] {
                    write_loose_raw(&objects, &name, &whole[..cut]);
                    let store = store(&repo);
                    let error = read_all_ways(&store, &id(&name)).unwrap_err();
                    assert!(error.is_corrupt(), "cut to {cut}: {error}");
                    if cut == 0 {
                        assert!(error.to_string().contains("empty"), "{error}");
                    }
                    match store.header(&id(&name)) {
                        Ok(header) => assert_eq!((header.kind, header.size), (ObjectKind::Blob, content.len() as u64)),
                        Err(error) => assert!(error.is_corrupt()),
                    }
                }
                write_loose_raw(&objects, &name, &whole);
                assert_eq!(read_all_ways(&store(&repo), &id(&name)).unwrap(), (ObjectKind::Blob, content.clone()));
            }
        }
        // No NUL within the stream that is there.
        let name = object_id(hash, "blob", b"abc");
        let long = deflate(format!("{} 3\0abc", "a".repeat(500)).as_bytes(), 0);
        for cut in [60, 400, long.len()] {
            write_loose_raw(&objects, &name, &long[..cut]);
            let store = store(&repo);
            assert!(store.header(&id(&name)).unwrap_err().is_corrupt());
            assert!(read_all_ways(&store, &id(&name)).unwrap_err().is_corrupt());
        }
    }
}

#[test]
fn o2_headers_follow_the_rules() {
    let body = b"this is a blob with a body of forty-seven bytes";
    assert_eq!(body.len(), 47);
    let digits = format!("blob 4{}\0abcd", "5".repeat(60));
    let bad: &[&[u8]] = &[
        b"blob 100\0short",
        b"blob 04\0abcd",
        b"blob +4\0abcd",
        b"blob -4\0abcd",
        b"blob 4 \0abcd",
        b"blob  4\0abcd",
        b"blob 0x4\0abcd",
        b"blob\0abcd",
        b"blob \0abcd",
        b" 4\0abcd",
        b"4\0abcd",
        b"\0",
        b"blob 4abcd",
        digits.as_bytes(),
        b"blob 99999999999999999999999\0abcd",
        b"blob 18446744073709551616\0abcd",
        b"blob 18446744073709551615\0abcd",
        b"blob 9223372036854775808\0abcd",
        b"blub 4\0abcd",
        b"BLOB 4\0abcd",
        b"blob 3\0abcd",
        b"blob 5\0abcd",
        b"blob 0\0abcd",
        &[&b"blob 12\0"[..], body].concat(),
    ];
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let objects = repo.objects_dir();
        for inflated in bad {
            let name = object_id(hash, "blob", &body[..12]);
            write_loose(&objects, &name, inflated);
            let store = store(&repo);
            let text = String::from_utf8_lossy(inflated).into_owned();
            let error = read_all_ways(&store, &id(&name)).unwrap_err();
            assert!(error.is_corrupt(), "{text}: {error}");
            // Only a size that the bytes might have can pass when nothing but the header is asked for.
            if let Ok(header) = store.header(&id(&name)) {
                assert!(header.size <= 100, "{text}");
            }
        }
        let good = noise(10 << 10);
        let name = object_id(hash, "blob", &good);
        write_loose(&objects, &name, &[&b"blob 10240\0"[..], &good].concat());
        assert_eq!(read_all_ways(&store(&repo), &id(&name)).unwrap(), (ObjectKind::Blob, good));
    }
}

#[test]
fn o2_a_large_object_with_a_wrong_size_fails_as_a_stream_too() {
    let repo = TestRepo::bare(Hash::Sha1);
    let content = noise(1 << 20);
    for claimed in [(1 << 20) - 1, (1 << 20) + 1, 600_000, 3 << 20] {
        let name = object_id(Hash::Sha1, "blob", &content);
        write_loose(&repo.objects_dir(), &name, &[format!("blob {claimed}\0").as_bytes(), &content].concat());
        assert!(read_all_ways(&store(&repo), &id(&name)).unwrap_err().is_corrupt());
    }
}

#[test]
fn garbage_after_the_stream() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        for content in [b"x".to_vec(), noise(3000), noise(700_000)] {
            let name = object_id(hash, "blob", &content);
            let mut file = deflate(&[format!("blob {}\0", content.len()).as_bytes(), &content].concat(), 1);
            file.push(0);
            write_loose_raw(&repo.objects_dir(), &name, &file);
            assert!(read_all_ways(&store(&repo), &id(&name)).unwrap_err().to_string().contains("garbage"));
        }
    }
}

#[test]
fn f1_a_size_that_is_right_modulo_2_to_32() {
    let repo = TestRepo::bare(Hash::Sha1);
    let name = object_id(Hash::Sha1, "blob", b"abcd");
    write_loose(&repo.objects_dir(), &name, b"blob 4294967300\0abcd");
    let store = store(&repo);
    assert!(read_all_ways(&store, &id(&name)).unwrap_err().is_corrupt());
    assert!(store.header(&id(&name)).unwrap_err().is_corrupt(), "32 bytes cannot hold four gigabytes");
}

#[test]
fn o9_what_is_no_loose_object() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let objects = repo.objects_dir();
        let hex_len = hash.hex_len() - 2;
        for dir in ["ab", "AB", "zz"] {
            fs::create_dir_all(objects.join(dir)).unwrap();
        }
        fs::write(objects.join("ab/short"), "").unwrap();
        fs::write(objects.join("ab/tmp_obj_x"), "").unwrap();
        fs::create_dir(objects.join("ab").join("1".repeat(hex_len))).unwrap();
        fs::write(objects.join("ab").join("A".repeat(hex_len)), "").unwrap();
        fs::write(objects.join("AB").join("1".repeat(hex_len)), "").unwrap();
        fs::write(objects.join("zz").join("1".repeat(hex_len)), "").unwrap();
        fs::write(objects.join("README"), "").unwrap();
        let real = object_id(hash, "blob", b"real");
        write_loose(&objects, &real, b"blob 4\0real");
        let store = store(&repo);
        assert_eq!(store.ids().unwrap().collect::<Vec<_>>(), [id(&real)]);
        assert_eq!(store.loose_ids(0).unwrap(), [id(&real)]);
        let directory = testkit::pack::unhex(&format!("ab{}", "1".repeat(hex_len)));
        assert!(!store.contains(&id(&directory)).unwrap());
        assert!(store.read(&id(&directory), &mut Vec::new()).unwrap_err().is_missing());
        assert!(store.header(&id(&directory)).unwrap_err().is_missing());
    }
}

#[test]
fn a_wrong_name_is_found_when_asked_for() {
    let repo = TestRepo::bare(Hash::Sha1);
    for content in [b"other".to_vec(), noise(700_000)] {
        let name = object_id(Hash::Sha1, "blob", b"one");
        let inflated = [format!("blob {}\0", content.len()).as_bytes(), &content].concat();
        write_loose(&repo.objects_dir(), &name, &inflated);
        assert_eq!(read_all_ways(&store(&repo), &id(&name)).unwrap().1, content, "as git, which does not look");
        let strict = Store::open(&repo.objects_dir(), options(Hash::Sha1).verify_on_read(true)).unwrap();
        let error = read_all_ways(&strict, &id(&name)).unwrap_err();
        assert!(matches!(&error, ReadError::Corrupt(_)) && error.to_string().contains("name"), "{error}");
    }
}
