package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// shardBytes returns one shard's file, of n samples.
func shardBytes(t testing.TB, n int) []byte {
	t.Helper()
	options := testOptions(1)
	options.ShardSamples = n
	return testenv.Must(os.ReadFile(filepath.Join(writeSet(t, makeSamples(n), options), "rank-0000/00000.imgshard")))(t)
}

// memoryFile is a shard's file in memory, which can fail.
type memoryFile struct {
	*bytes.Reader
	fail func(offset int64) error // nil: never
}

func (f memoryFile) Close() error { return nil }

func (f memoryFile) ReadsMax() int { return 1 }
func (f memoryFile) Blocks() bool  { return false }

func (f memoryFile) Hangs() (bool, time.Duration) { return false, 0 }

func (f memoryFile) WillNeed(int64, int64) bool { return true }

func (f memoryFile) Fetch([]byte, int64, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func (f memoryFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.fail != nil {
		if err := f.fail(offset); err != nil {
			return 0, err
		}
	}
	return f.Reader.ReadAt(p, offset)
}

func openBytes(data []byte) (*reader, error) {
	return openReader("test.imgshard", memoryFile{Reader: bytes.NewReader(data)})
}

// readAll opens a shard's bytes and reads every record and key.
func readAll(data []byte) error {
	r, err := openBytes(data)
	if err != nil {
		return err
	}
	var buf []byte
	for j := range r.Len() {
		if _, buf, err = r.Read(j, buf); err != nil {
			return err
		}
	}
	_, err = r.Keys()
	return err
}

// sections returns the byte ranges of a shard's parts, and whether a change in there must be noticed by reading (only the
// whole file's SHA-256 covers what pads them).
func sections(t *testing.T, data []byte) map[string][2]int64 {
	t.Helper()
	r := testenv.Must(openBytes(data))(t)
	f := r.footer
	headerEnd := prefixSize + int64(binary.LittleEndian.Uint32(data[12:])) + 4
	return map[string][2]int64{
		"header":  {0, headerEnd},
		"entries": {f.EntriesOffset, f.KeysOffset},
		"keys":    {f.KeysOffset, f.KeysOffset + f.KeysLength},
		"footer":  {f.FileLength - footerSize, f.FileLength},
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	data := shardBytes(t, 5)
	r := testenv.Must(openBytes(data))(t)
	ranges := sections(t, data)
	for j := range r.Len() {
		e := r.Entry(j)
		ranges[fmt.Sprintf("record %d", j)] = [2]int64{e.Offset, e.Offset + int64(e.ImageLength) + int64(e.AuxLength)}
	}
	flips := 0
	for name, span := range ranges {
		for at := span[0]; at < span[1]; at++ {
			bit := byte(1) << (at % 8)
			data[at] ^= bit
			err := readAll(data)
			data[at] ^= bit
			c, ok := errors.AsType[*CorruptError](err)
			testenv.Require(t, ok, "%s, byte %d, bit %#x: %v", name, at, bit, err)
			section, _, _ := strings.Cut(name, " ")
			testenv.Require(t, section != "record" || name == fmt.Sprintf("record %d", c.Record) && c.Section == section && c.Offset == span[0],
				"%s, byte %d: %v", name, at, err)
			flips++
		}
	}
	err := readAll(data)
	testenv.Require(t, err == nil && flips >= 1000, "%d flips, then %v", flips, err)
}

func TestTruncatedFile(t *testing.T) {
	data := shardBytes(t, 3)
	for n := range len(data) {
		_, err := openBytes(data[:n])
		testenv.Require(t, isCorrupt(err), "%d of %d bytes: %v", n, len(data), err)
	}
	_, err := openBytes(append(bytes.Clone(data), 0))
	testenv.Require(t, isCorrupt(err), "a byte too many: %v", err)
}

func isCorrupt(err error) bool {
	_, ok := errors.AsType[*CorruptError](err)
	return ok
}

func TestFileCutWhileOpen(t *testing.T) {
	samples := makeSamples(8)
	dir := writeSet(t, samples, testOptions(1))
	s := openSet(t, dir)
	at := testenv.Must(s.Locate(2))(t)
	entry := testenv.Must(s.Entry(2))(t)
	path := filepath.Join(dir, at.Path)
	testenv.OK(t, os.Truncate(path, entry.Offset+1))
	buf := make([]byte, 1000)
	for i := range samples {
		var err error
		buf, err = compareSample(s, i, &samples[i], buf)
		inCut := i >= 2 && i < 4
		if inCut {
			c := testenv.As[*CorruptError](t, err)
			testenv.Check(t, c.Path == path && c.Record == i && c.Index == i && errors.Is(err, io.ErrUnexpectedEOF), "sample %d: %v", i, err)
		} else if i >= 4 && err != nil {
			t.Errorf("sample %d of an undamaged shard: %v", i, err)
		}
	}
	testenv.Fails(s.Key(0))(t, isCorrupt, "keys after the cut")
}

// TestForgedFiles gives files whose checksums are right and whose contents are not.
func TestForgedFiles(t *testing.T) {
	good := shardBytes(t, 4)
	r := testenv.Must(openBytes(good))(t)
	entryAt := func(p []byte, j int) []byte { return p[r.footer.EntriesOffset+entrySize*int64(j):] }
	le := binary.LittleEndian
	forgeries := map[string]func(p []byte, f *footer){
		"entry before the records":  func(p []byte, f *footer) { le.PutUint64(entryAt(p, 0), 0) },
		"entry after the records":   func(p []byte, f *footer) { le.PutUint64(entryAt(p, 3), 1<<40) },
		"negative offset":           func(p []byte, f *footer) { le.PutUint64(entryAt(p, 3), 1<<63|8) },
		"offset that is not 8n":     func(p []byte, f *footer) { entryAt(p, 3)[0] |= 1 },
		"records that overlap":      func(p []byte, f *footer) { copy(entryAt(p, 1)[:8], entryAt(p, 0)) },
		"image longer than a file":  func(p []byte, f *footer) { le.PutUint32(entryAt(p, 2)[8:], 1<<32-1) },
		"aux longer than a file":    func(p []byte, f *footer) { le.PutUint32(entryAt(p, 2)[12:], 1<<32-1) },
		"label -2":                  func(p []byte, f *footer) { le.PutUint32(entryAt(p, 2)[20:], 1<<32-2) },
		"no width":                  func(p []byte, f *footer) { le.PutUint32(entryAt(p, 2)[24:], 0) },
		"negative height":           func(p []byte, f *footer) { le.PutUint32(entryAt(p, 2)[28:], 1<<31) },
		"key that ends early":       func(p []byte, f *footer) { le.PutUint32(p[f.KeysOffset+4:], 1<<32-1) },
		"key that begins late":      func(p []byte, f *footer) { le.PutUint32(p[f.KeysOffset:], 1) },
		"keys that do not use all":  func(p []byte, f *footer) { le.PutUint32(p[f.KeysOffset+16:], le.Uint32(p[f.KeysOffset+16:])-1) },
		"a key of no bytes":         func(p []byte, f *footer) { le.PutUint32(p[f.KeysOffset+8:], le.Uint32(p[f.KeysOffset+4:])) },
		"more samples than entries": func(p []byte, f *footer) { f.Count++ },
		"too many samples":          func(p []byte, f *footer) { f.Count = 1<<32 - 1 },
		"records from the prefix":   func(p []byte, f *footer) { f.RecordsOffset = 0 },
		"records from far away":     func(p []byte, f *footer) { f.RecordsOffset = 1 << 62 },
		"records end far away":      func(p []byte, f *footer) { f.RecordsEnd = 1 << 62 },
		"entries far away":          func(p []byte, f *footer) { f.EntriesOffset = -8 },
		"keys far away":             func(p []byte, f *footer) { f.KeysOffset = 1<<63 - 1 },
		"keys too long":             func(p []byte, f *footer) { f.KeysLength = 1<<63 - 1 },
		"keys too short":            func(p []byte, f *footer) { f.KeysLength = 0 },
		"another file's length":     func(p []byte, f *footer) { f.FileLength++ },
		"header too long":           func(p []byte, f *footer) { le.PutUint32(p[12:], 1<<32-1) },
		"header that is not JSON":   func(p []byte, f *footer) { p[prefixSize] = '[' },
	}
	for name, forge := range forgeries {
		t.Run(name, func(t *testing.T) {
			p, f := bytes.Clone(good), r.footer
			forge(p, &f)
			resign(p, &f)
			testenv.Says(t, "what is forged", readAll(p), isCorrupt)
		})
	}
}

// resign makes the checksums of a forged file right, where its offsets allow.
func resign(p []byte, f *footer) {
	headerEnd := prefixSize + int64(binary.LittleEndian.Uint32(p[12:]))
	if headerEnd+4 <= int64(len(p)) {
		f.HeaderCRC = crc32c.Checksum(p[:headerEnd])
		binary.LittleEndian.PutUint32(p[headerEnd:], f.HeaderCRC)
	}
	inside := func(from, to int64) bool { return from >= 0 && from <= to && to <= int64(len(p)) }
	if end := f.EntriesOffset + entrySize*int64(f.Count); inside(f.EntriesOffset, end) {
		f.EntriesCRC = crc32c.Checksum(p[f.EntriesOffset:end])
	}
	if end := f.KeysOffset + f.KeysLength; inside(f.KeysOffset, end) {
		f.KeysCRC = crc32c.Checksum(p[f.KeysOffset:end])
	}
	copy(p[len(p)-footerSize:], f.bytes())
}

func TestVersions(t *testing.T) {
	good := shardBytes(t, 2)
	for _, version := range []Version{0, versionCurrent + 1, 1 << 31} {
		p := bytes.Clone(good)
		f := parseFooter(p[len(p)-footerSize:])
		f.Version = version
		binary.LittleEndian.PutUint32(p[8:], uint32(version))
		resign(p, &f)
		_, err := openBytes(p)
		testenv.Equal(t, testenv.As[*UnsupportedError](t, err).Version, version, "version")
	}
}

func TestFailingDiskIsNoCorruption(t *testing.T) {
	data := shardBytes(t, 4)
	boom := errors.New("input/output error")
	for calls := range 5 {
		n := 0
		file := memoryFile{Reader: bytes.NewReader(data), fail: func(int64) error {
			if n++; n > calls {
				return boom
			}
			return nil
		}}
		r, err := openReader("test.imgshard", file)
		if err == nil {
			_, _, err = r.Read(0, nil)
		}
		if err == nil {
			_, err = r.Keys()
		}
		testenv.As[*ReadError](t, err, "test.imgshard")
		testenv.Check(t, errors.Is(err, boom) && !isCorrupt(err), "read %d fails: %v", calls, err)
	}
}

func TestReadErrorSaysWhereAndWhatToDo(t *testing.T) {
	set := openSet(t, writeSet(t, makeSamples(6), testOptions(2)))
	r := set.partitions[1].shards[0]
	entry := r.Entry(2)
	for failure, want := range map[syscall.Errno]string{syscall.EIO: "disk failed", syscall.ESTALE: "mount it again", syscall.ENOTCONN: "imgfeed reload"} {
		r.file.Close()
		r.file = memoryFile{fail: func(int64) error { return &os.PathError{Op: "read", Path: r.path, Err: failure} }}
		_, _, err := set.Read(5, nil)
		got := testenv.As[*ReadError](t, err, want, "record 2 (sample 5) at byte")
		testenv.Says(t, failure, err, failure)
		testenv.Check(t, got.Record == 2 && got.Index == 5 && got.Offset == entry.Offset && got.Length == int(entry.length()), "%#v", err)
		testenv.Equal(t, strings.Count(err.Error(), r.path), 1, "%v: paths in %v", failure, err)
	}
}

func writeManifest(t *testing.T, dir string, m *Manifest) {
	t.Helper()
	testenv.OK(t, os.WriteFile(filepath.Join(dir, manifestName), testenv.Must(m.encode())(t), 0o666))
}

// verified checks that a set has n samples, all of which are whole.
func verified(t *testing.T, dir string, n int) {
	t.Helper()
	report := testenv.Must(Verify(t.Context(), dir, VerifyOptions{Problem: func(err error) { t.Error(err) }}))(t)
	testenv.Equal(t, report.Samples, n, "samples that were verified")
}

func TestManifestDamage(t *testing.T) {
	samples := makeSamples(12)
	dir := writeSet(t, samples, testOptions(2))
	path := filepath.Join(dir, manifestName)
	good := testenv.Must(os.ReadFile(path))(t)
	for at := range good {
		for _, damaged := range [][]byte{good[:at], append(append(bytes.Clone(good[:at]), good[at]^1<<(at%8)), good[at+1:]...)} {
			_, err := decodeManifest(path, damaged)
			testenv.Require(t, isCorrupt(err), "byte %d of %d: %v", at, len(good), err)
		}
	}
	edit := func(name string, change func(m *Manifest), check func(error) bool) {
		m := testenv.Must(decodeManifest(path, good))(t)
		change(m)
		writeManifest(t, dir, m)
		testenv.Fails(OpenSet(dir))(t, check, "%s", name)
	}
	unsupported := func(err error) bool { _, ok := errors.AsType[*UnsupportedError](err); return ok }
	edit("a later version", func(m *Manifest) { m.Version = versionCurrent + 1 }, unsupported)
	edit("the shards' version is older", func(m *Manifest) { m.Version = versionCurrent }, isCorrupt)
	edit("fields in version 1", func(m *Manifest) { m.Fields = Fields{{Name: "score", Type: Float32}} }, isCorrupt)
	edit("another format", func(m *Manifest) { m.Format = "imgshort" }, func(err error) bool { return errors.Is(err, ErrNotSet) })
	edit("no world", func(m *Manifest) { m.Partitions = 0 }, isCorrupt)
	edit("a great world", func(m *Manifest) { m.Partitions = 1 << 40 }, isCorrupt)
	edit("more samples", func(m *Manifest) { m.Samples++ }, isCorrupt)
	edit("negative samples", func(m *Manifest) { m.Samples = -1 }, isCorrupt)
	edit("too great a shard", func(m *Manifest) { m.Shards[0].Samples = 1 << 62 }, isCorrupt)
	edit("a shard less", func(m *Manifest) { m.Shards = m.Shards[1:] }, isCorrupt)
	edit("a shard twice", func(m *Manifest) { m.Shards = append(m.Shards[:1:1], m.Shards...) }, isCorrupt)
	edit("path outside", func(m *Manifest) { m.Shards[0].Path = "../../etc/passwd" }, isCorrupt)
	edit("another count", func(m *Manifest) { m.Shards[0].Samples--; m.Shards[1].Samples++ }, isCorrupt)
	edit("another size", func(m *Manifest) { m.Shards[0].Bytes++ }, isCorrupt)
	edit("another footer", func(m *Manifest) { m.Shards[0].Footer = "00000000" }, isCorrupt)
	edit("another encoding", func(m *Manifest) { m.Encoding.Name = "pixels" }, isCorrupt)
	edit("another split", func(m *Manifest) { m.Split = "val" }, isCorrupt)
	edit("fewer classes", func(m *Manifest) { m.Classes = m.Classes[:1] }, isCorrupt)
	edit("no change", func(*Manifest) {}, func(err error) bool { return err == nil })
}

func TestDamagedSets(t *testing.T) {
	cases := map[string]struct {
		damage func(dir string) error
		check  func(error) bool
	}{
		"shard gone": {func(dir string) error { return os.Remove(filepath.Join(dir, "rank-0001/00000.imgshard")) },
			func(err error) bool { return isCorrupt(err) && errors.Is(err, fs.ErrNotExist) }},
		"shard half copied": {func(dir string) error { return os.Truncate(filepath.Join(dir, "rank-0001/00001.imgshard"), 300) }, isCorrupt},
		"shards swapped": {func(dir string) error {
			a, b := filepath.Join(dir, "rank-0000/00000.imgshard"), filepath.Join(dir, "rank-0001/00000.imgshard")
			return errors.Join(os.Rename(a, a+"x"), os.Rename(b, a), os.Rename(a+"x", b))
		}, isCorrupt},
		"shard is a folder": {func(dir string) error {
			p := filepath.Join(dir, "rank-0000/00000.imgshard")
			return errors.Join(os.Remove(p), os.Mkdir(p, 0o777))
		}, func(err error) bool { return err != nil }},
		"shard is a pipe": {func(dir string) error {
			p := filepath.Join(dir, "rank-0000/00000.imgshard")
			return errors.Join(os.Remove(p), unix.Mkfifo(p, 0o666))
		}, func(err error) bool { return err != nil }},
		"partition is a file": {func(dir string) error {
			p := filepath.Join(dir, "rank-0000")
			return errors.Join(os.RemoveAll(p), os.WriteFile(p, nil, 0o666))
		}, func(err error) bool { return err == nil }}, // the other partition is served
		"no manifest":  {func(dir string) error { return os.Remove(filepath.Join(dir, manifestName)) }, func(err error) bool { return errors.Is(err, ErrNotSet) }},
		"manifest cut": {func(dir string) error { return os.Truncate(filepath.Join(dir, manifestName), 100) }, isCorrupt},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := writeSet(t, makeSamples(14), testOptions(2))
			testenv.OK(t, c.damage(dir))
			s, err := OpenSet(dir)
			testenv.Check(t, c.check(err), "got %v", err)
			if err == nil {
				s.Close()
			}
			_, err = Verify(context.Background(), dir, VerifyOptions{})
			testenv.Check(t, !errors.Is(err, context.Canceled), "%v", err)
		})
	}
}

func TestVerify(t *testing.T) {
	samples := makeSamples(30)
	verify := func(dir string) (VerifyReport, []*CorruptError, error) {
		var problems []*CorruptError
		report, err := Verify(context.Background(), dir, VerifyOptions{Problem: func(err error) {
			c, ok := errors.AsType[*CorruptError](err)
			if !ok {
				t.Errorf("problem %v", err)
				return
			}
			problems = append(problems, c)
		}})
		return report, problems, err
	}
	dir := writeSet(t, samples, testOptions(2))
	report, problems, err := verify(dir)
	good := report.Samples == 30 && report.Shards == 8 && report.Bytes == report.BytesTotal && len(report.Missing) == 0
	testenv.Require(t, err == nil && report.Problems == 0 && good, "a good set: %+v, %v, %v", report, problems, err)

	flip := func(i int, into int64) {
		t.Helper()
		s := openSet(t, dir)
		entry, _ := s.Entry(i)
		at, _ := s.Locate(i)
		f := testenv.Must(os.OpenFile(filepath.Join(dir, at.Path), os.O_RDWR, 0))(t)
		defer f.Close()
		var b [1]byte
		f.ReadAt(b[:], entry.Offset+into)
		b[0] ^= 0x10
		testenv.Must(f.WriteAt(b[:], entry.Offset+into))(t)
	}
	flip(5, 0)
	flip(21, 0)
	report, problems, err = verify(dir)
	testenv.Require(t, err == nil && report.Problems == 2 && len(problems) == 2 && problems[0].Index+problems[1].Index == 26,
		"two bad records: %+v, %v, %v", report, problems, err)
	for _, c := range problems {
		sum := testenv.As[*ChecksumError](t, c)
		testenv.Check(t, sum.Want != sum.Got && c.Section == "record", "problem %v", c)
		testenv.Contains(t, c.Error(), c.Path, fmt.Sprintf("record %d", c.Record), fmt.Sprintf("byte %d", c.Offset),
			fmt.Sprintf("%08x", sum.Want), fmt.Sprintf("%08x", sum.Got), "rebuild")
	}
	flip(5, 0)
	flip(21, 0)
	pad := -1
	for i, s := range samples {
		if (len(s.Image)+len(s.Aux))%8 != 0 {
			pad = i
		}
	}
	flip(pad, int64(len(samples[pad].Image)+len(samples[pad].Aux)))
	report, problems, err = verify(dir)
	testenv.Check(t, err == nil && len(problems) == 1 && problems[0].Section == "file", "padding changed: %+v, %v, %v", report, problems, err)
}

func TestVerifyFindsForgedOrder(t *testing.T) {
	for name, change := range map[string]func(m *Manifest){
		"seed":        func(m *Manifest) { m.Seed++ },
		"fingerprint": func(m *Manifest) { m.Fingerprint = strings.Repeat("0", 64) },
	} {
		dir := writeSet(t, makeSamples(9), testOptions(1))
		m := testenv.Must(ReadManifest(dir))(t)
		change(m)
		writeManifest(t, dir, m)
		testenv.Equal(t, testenv.Must(Verify(t.Context(), dir, VerifyOptions{}))(t).Problems, 1, "%s: problems", name)
	}
}

func TestVerifyOfAPart(t *testing.T) {
	dir := writeSet(t, makeSamples(30), testOptions(3))
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "rank-0002")))
	report, err := Verify(context.Background(), dir, VerifyOptions{})
	testenv.Check(t, err == nil && report.Problems == 0 && report.Samples == 20 && len(report.Missing) == 1, "%+v, %v", report, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	testenv.Fails(Verify(ctx, dir, VerifyOptions{}))(t, context.Canceled)
}
