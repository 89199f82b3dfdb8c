//! Tables from Parquet files give the same as those from csv.

#[cfg(feature = "parquet")]
mod with_the_feature {
    use std::fs::File;
    use std::sync::Arc;

    use parquet::column::writer::ColumnWriter;
    use parquet::data_type::ByteArray;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use crate::support::{Run, Sandbox, catalogue, ratings};

    const ROWS_PER_GROUP: usize = 64;

    /// Converts a csv file to Parquet: columns that are numbers in every row become doubles, the
    /// others text.
    fn convert(sandbox: &Sandbox, csv: &str, parquet: &str) {
        let text = sandbox.text(csv);
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let names = lines.next().unwrap();
        let rows: Vec<Vec<&str>> = lines.collect();
        let is_number = |at: usize| rows.iter().all(|row| row[at].parse::<f64>().is_ok());
        let declared: String = (0..names.len())
            .map(|at| match is_number(at) {
                true => format!("required double {};", names[at]),
                false => format!("required binary {} (STRING);", names[at]),
            })
            .collect();
        let schema = parse_message_type(&format!("message table {{ {declared} }}")).unwrap();
        let file = File::create(sandbox.path(parquet)).unwrap();
        let properties = Arc::new(WriterProperties::builder().build());
        let mut out = SerializedFileWriter::new(file, Arc::new(schema), properties).unwrap();
        for rows in rows.chunks(ROWS_PER_GROUP) {
            let mut group = out.next_row_group().unwrap();
            for at in 0..names.len() {
                let mut column = group.next_column().unwrap().unwrap();
                let cells = rows.iter().map(|row| row[at]);
                match column.untyped() {
                    ColumnWriter::DoubleColumnWriter(out) => {
                        let values: Vec<f64> = cells.map(|cell| cell.parse().unwrap()).collect();
                        out.write_batch(&values, None, None).unwrap();
                    }
                    ColumnWriter::ByteArrayColumnWriter(out) => {
                        let values: Vec<ByteArray> = cells.map(ByteArray::from).collect();
                        out.write_batch(&values, None, None).unwrap();
                    }
                    _ => panic!("no such column"),
                }
                column.close().unwrap();
            }
            group.close().unwrap();
        }
        out.close().unwrap();
    }

    fn run(sandbox: &Sandbox, line: &str) -> Run {
        sandbox.dp(&line.split(' ').collect::<Vec<_>>())
    }

    /// Ratings, a catalogue and one user's own ratings, each as csv and as Parquet.
    fn both() -> Sandbox {
        let sandbox = Sandbox::with_ratings();
        sandbox.write("items.csv", catalogue(25));
        sandbox.write("mine.csv", "item,rating\nitem-3,5\nitem-4,1.5\n");
        for table in ["ratings", "items", "mine"] {
            convert(
                &sandbox,
                &format!("{table}.csv"),
                &format!("{table}.parquet"),
            );
        }
        sandbox
    }

    #[test]
    fn ratings_give_the_same_model_and_answers_bit_for_bit() {
        let sandbox = both();
        let shown = |kind: &str| {
            let train = format!(
                "train ratings.{kind} --items items.{kind} --epsilon 1 --delta 1e-5 --insecure-seed 7 --out {kind}"
            );
            run(&sandbox, &train).exits(0);
            let recommend = format!("recommend --model {kind} --history mine.{kind} --json");
            let evaluate = format!("evaluate ratings.{kind} --model {kind} --json");
            let answers = [recommend, evaluate].map(|line| {
                let answer = run(&sandbox, &line).exits(0).stdout;
                answer.replace(&format!("{kind}-internal"), "internal folder")
            });
            let files = ["item_factors.safetensors", "items.csv"];
            (
                answers,
                files.map(|file| sandbox.read(&format!("{kind}/{file}"))),
            )
        };
        let (csv, parquet) = (shown("csv"), shown("parquet"));
        assert_eq!(csv.1, parquet.1, "factors or items");
        assert_eq!(csv.0, parquet.0, "answers");
    }

    #[test]
    fn labelled_rows_give_the_same_releases() {
        let sandbox = Sandbox::new();
        let rows = (0..480_u32).map(|row| {
            let [a, b, c] = [3, 5, 7].map(|k| f64::from(row * k % 11) / 10.0 - 0.5);
            let y = f64::from(row / 8 % 5) + a + b - c;
            format!("u{},{y},{a},{b},{c}\n", row / 8)
        });
        let text = "user,y,a,b,c\n".to_owned() + &rows.collect::<String>();
        sandbox.write("rows.csv", text);
        convert(&sandbox, "rows.csv", "rows.parquet");
        for (command, file) in [
            ("personalize ROWS --rank 1", "subspace.safetensors"),
            (
                "federate ROWS --alpha-grid 1 --rounds 3",
                "shared.safetensors",
            ),
        ] {
            let released = ["csv", "parquet"].map(|kind| {
                let line = command.replace("ROWS", &format!("rows.{kind}"));
                let out = format!("{file}.{kind}");
                let line = format!("{line} --epsilon 1 --delta 1e-5 --insecure-seed 7 --out {out}");
                run(&sandbox, &line).exits(0);
                sandbox.read(&format!("{out}/{file}"))
            });
            assert!(
                !released[0].is_empty() && released[0] == released[1],
                "{command}"
            );
        }
    }

    #[test]
    fn columns_have_other_names_and_errors_have_places() {
        let sandbox = Sandbox::new();
        let text = ratings(40, 25, 10);
        let rows = text.lines().skip(1).map(|row| format!("{row},none,7\n"));
        let header = "who,film,stars,note,code\n".to_owned();
        sandbox.write("other.csv", header + &rows.collect::<String>());
        convert(&sandbox, "other.csv", "other.parquet");
        let train = |columns: &str| {
            let line =
                format!("train other.parquet --epsilon 1 --delta 1e-5 --item-col film{columns}");
            run(&sandbox, &line)
        };
        train("")
            .exits(4)
            .says(&["other.parquet:1: user column not found", "--user-col"]);
        train(" --user-col who --rating-col note")
            .exits(4)
            .says(&["other.parquet:1:4: expected a number for the rating"]);
        train(" --user-col code --rating-col stars")
            .exits(4)
            .says(&[
                "other.parquet:1:5: expected a column of text or whole numbers for the user's id",
            ]);
        train(" --user-col who --rating-col stars").exits(0);
    }

    #[test]
    fn damage_is_told_and_leaves_nothing_behind() {
        let sandbox = both();
        let whole = sandbox.read("ratings.parquet");
        sandbox.write("cut.parquet", &whole[..whole.len() / 2]);
        let mut pages = whole.clone();
        pages[8..400].fill(0xff);
        sandbox.write("pages.parquet", pages);
        sandbox.write("text.parquet", ratings(4, 3, 2));
        let before = sandbox.names();
        for (file, said) in [
            ("cut.parquet", "cut.parquet: cannot be read as Parquet"),
            ("text.parquet", "text.parquet: cannot be read as Parquet"),
            ("pages.parquet", "row group 1 cannot be decoded"),
        ] {
            let line = format!("train {file} --epsilon 1 --delta 1e-5 --ledger l.ledger");
            run(&sandbox, &line).exits(4).says(&[file, said]);
            assert_eq!(sandbox.names(), before, "{file}");
        }
    }

    /// An id in the dictionary whose declared length exceeds its page: the decoder panics.
    #[test]
    fn a_panic_of_the_decoder_is_an_error_and_says_nothing_else() {
        let sandbox = Sandbox::new();
        sandbox.write("t.csv", "user,item,rating\nann,a,1\nbob,b,2\ncy,a,3\n");
        convert(&sandbox, "t.csv", "t.parquet");
        let mut bytes = sandbox.read("t.parquet");
        let at = bytes.windows(7).position(|seven| seven == b"\x03\0\0\0ann");
        bytes[at.unwrap()] = 0x0e;
        sandbox.write("t.parquet", bytes);
        let run = run(&sandbox, "train t.parquet --epsilon 1 --delta 1e-5");
        let run = run.exits(4).says(&["row group 1 cannot be decoded"]);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
}
