package pack

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

func TestReadRejectsNamesTheLine(t *testing.T) {
	dir := t.TempDir()
	const good = `{"key":"a/1.jpg","bytes":3,"reason":"not an image"}` + "\n"
	for _, c := range []struct{ text, want string }{
		{good + "{\"key\":\"a/2", "line 2: unexpected end of JSON input"},
		{good + good + "[1]\n", "line 3: "},
		{good + "{\"reason\":\"x\"}\n", "line 2: it has no \"key\""},
		{"{\"key\":null}\n", "line 1: "},
		{"\n", "line 1: "},
		{good + strings.Repeat("x", rejectBytesMax), "line 2: bufio.Scanner: token too long"},
	} {
		path := filepath.Join(dir, shard.RejectsName)
		testenv.OK(t, os.WriteFile(path, []byte(c.text), 0o666))
		err := ReadRejects(dir, func(Reject) {})
		if err == nil || !strings.HasPrefix(err.Error(), path+": "+c.want) || !strings.HasSuffix(err.Error(), "copy the file again from where the set is whole") {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if err := ReadRejects(t.TempDir(), func(Reject) { t.Error("a line") }); err != nil {
		t.Errorf("without a list: %v", err)
	}
}

// What a list is taken for can be written, and is then read as the same; anything else is an error that names file and line.
func FuzzRejects(f *testing.F) {
	src := writeSource(f)
	data, err := os.ReadFile(filepath.Join(buildSet(f, src, Options{}), shard.RejectsName))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"key":"\ud800","key":"x","Reason":1}`))
	read := func(data []byte) (lines []Reject, err error) {
		err = readRejects(bytes.NewReader(data), "set/rejects.jsonl", func(r Reject) { lines = append(lines, r) })
		return lines, err
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := read(data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "set/rejects.jsonl: line ") {
				t.Fatalf("an error without file and line: %v", err)
			}
			if n := bytes.Count(data, []byte("\n")); len(first) > n {
				t.Fatalf("%d lines before the error of %d: %v", len(first), n, err)
			}
		}
		var again bytes.Buffer
		enc := json.NewEncoder(&again)
		for _, l := range first {
			testenv.OK(t, enc.Encode(l))
		}
		second, err := read(again.Bytes())
		if err != nil || len(second) != len(first) {
			t.Fatalf("%d lines are read as %d: %v", len(first), len(second), err)
		}
		for i := range first {
			if first[i] != second[i] {
				t.Errorf("line %d is %v, and read again %v", i+1, first[i], second[i])
			}
		}
	})
}

// TestSpoolOfLongNames has a parquet file's rows name files at any length: they are left out, and what stands behind them in the spool file is not harmed.
func TestSpoolOfLongNames(t *testing.T) {
	s := &spoolInput{split: &dataset.Split{Path: "x.parquet"}}
	testenv.OK(t, s.makeFiles(t.TempDir(), 1))
	t.Cleanup(func() { s.spools[0].file.Close() })
	long := strings.Repeat("n", 1<<16+5)
	for _, it := range []transport.Item{{Key: long, Reason: long + "r"}, {Key: "next"}} {
		testenv.OK(t, s.add(it, []byte("bytes")))
	}
	testenv.OK(t, s.spools[0].w.Flush())
	if err := s.list(s.spools[0]); err != nil || len(s.items) != 2 {
		t.Fatalf("%d items, %v", len(s.items), err)
	}
	for _, it := range s.items {
		reason := it.at.reason
		if want := map[string]string{long: long + "r", "next": ""}; reason != want[it.key] || it.key == "" {
			t.Errorf("a key of %d bytes has a reason of %d", len(it.key), len(reason))
		}
	}
}
