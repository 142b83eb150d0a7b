package shard

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/storage"
	"golang.org/x/sys/unix"
)

const testSeed = 7

var testClasses = []string{"n01440764", "n01443537", "n01484850"}

// makeSamples returns n samples of made-up bytes, in the order of a set with testSeed.
func makeSamples(n int) []Sample {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	samples, hashes := make([]Sample, n), map[string]uint64{}
	for i := range samples {
		label := int32(rng.IntN(len(testClasses)))
		s := Sample{
			Key: fmt.Sprintf("%s/%s_%d.JPEG", testClasses[label], testClasses[label], i), Label: label,
			Width: 1 + rng.IntN(500), Height: 1 + rng.IntN(500), Format: imagefile.JPEG,
			Image: randomBytes(rng, 1+rng.IntN(300)),
		}
		if i%3 != 0 {
			s.Aux = randomBytes(rng, rng.IntN(40))
		}
		samples[i], hashes[s.Key] = s, OrderHash(testSeed, s.Key)
	}
	slices.SortFunc(samples, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(hashes[a.Key], hashes[b.Key]), cmp.Compare(a.Key, b.Key))
	})
	return samples
}

func randomBytes(rng *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}

func testOptions(partitions int) SetOptions {
	return SetOptions{
		Split: "train", Encoding: Encoding{Name: "jpeg"}, Classes: testClasses, Partitions: partitions, Seed: testSeed,
		ShardSamples: 4, Built: map[string]string{"source": "test"},
	}
}

// writeSet writes samples as a set and returns its folder.
func writeSet(t testing.TB, samples []Sample, options SetOptions) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "train-shards")
	w := testenv.Must(NewSetWriter(dir, options))(t)
	defer w.Abort()
	appendAll(t, w, samples)
	testenv.Must(w.Commit())(t)
	return dir
}

func appendAll(t testing.TB, w *SetWriter, samples []Sample) {
	t.Helper()
	for _, s := range samples {
		testenv.OK(t, w.Append(s))
	}
}

func openSet(t testing.TB, dir string) *Set {
	t.Helper()
	s := testenv.Must(OpenSet(dir))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// compareSample compares sample i of a set with what was written.
func compareSample(s *Set, i int, want *Sample, buf []byte) ([]byte, error) {
	rec, buf, err := s.Read(i, buf)
	if err != nil {
		return buf, err
	}
	key, err := s.Key(i)
	if err != nil {
		return buf, err
	}
	got := Sample{Key: key, Label: rec.Label, Width: int(rec.Width), Height: int(rec.Height), Format: rec.Format,
		Image: rec.Image, Aux: rec.Aux, Fields: rec.Fields}
	if got.Key != want.Key || got.Label != want.Label || got.Width != want.Width || got.Height != want.Height ||
		got.Format != want.Format || !bytes.Equal(got.Image, want.Image) || !bytes.Equal(got.Aux, want.Aux) || !bytes.Equal(got.Fields, want.Fields) {
		return buf, fmt.Errorf("sample %d: got %+v, want %+v", i, got, *want)
	}
	if slack := rec.Fields[len(rec.Fields):][:SlackBytes]; !bytes.Equal(slack, zeros[:]) {
		return buf, fmt.Errorf("sample %d: slack is %x", i, slack)
	}
	return buf, nil
}

// sameSamples compares the samples of a set with what was written.
func sameSamples(t *testing.T, s *Set, want []Sample) {
	t.Helper()
	var buf []byte
	for i := range want {
		var err error
		buf, err = compareSample(s, i, &want[i], buf)
		testenv.OK(t, err)
	}
}

func TestSetRoundTrip(t *testing.T) {
	for _, partitions := range []int{1, 2, 3, 7} {
		for _, n := range []int{0, 1, 5, 61} {
			t.Run(fmt.Sprintf("partitions=%d,n=%d", partitions, n), func(t *testing.T) {
				samples := makeSamples(n)
				s := openSet(t, writeSet(t, samples, testOptions(partitions)))
				testenv.Require(t, s.Len() == n && s.Partitions() == partitions && len(s.Missing()) == 0,
					"Len %d, Partitions %d, Missing %v", s.Len(), s.Partitions(), s.Missing())
				sameSamples(t, s, samples)
				for i := range samples {
					at := testenv.Must(s.Locate(i))(t)
					testenv.Require(t, at.Partition == i%partitions && at.Shard == i/partitions/4 && at.Record == i/partitions%4,
						"Locate(%d) = %+v", i, at)
					testenv.Equal(t, testenv.Must(s.Find(samples[i].Key))(t), i, "Find(%s)", samples[i].Key)
					testenv.Equal(t, testenv.Must(s.Label(i))(t), samples[i].Label, "label of %d", i)
				}
				for _, i := range []int{-1, n} {
					_, _, err := s.Read(i, nil)
					testenv.Says(t, i, err, ErrNotFound)
				}
				testenv.Fails(s.Find("n01440764/none.JPEG"))(t, ErrNotFound)
			})
		}
	}
}

func TestMissingPartition(t *testing.T) {
	samples := makeSamples(20)
	dir := writeSet(t, samples, testOptions(3))
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "rank-0001")))
	s := openSet(t, dir)
	testenv.Require(t, s.Has(0) && !s.Has(1) && s.Has(2) && reflect.DeepEqual(s.Missing(), []int{1}), "Missing %v", s.Missing())
	for i := range samples {
		_, _, err := s.Read(i, nil)
		found, findErr := s.Find(samples[i].Key)
		label, labelErr := s.Label(i)
		if i%3 != 1 {
			testenv.Check(t, err == nil && found == i && findErr == nil && labelErr == nil && label == samples[i].Label,
				"sample %d: %v; Find %d, %v; label %d, %v", i, err, found, findErr, label, labelErr)
			continue
		}
		for _, err := range []error{err, findErr, labelErr} {
			m := testenv.As[*MissingPartitionError](t, err)
			testenv.Equal(t, [2]int{m.Partition, m.Partitions}, [2]int{1, 3}, "sample %d: the partition that is missing", i)
		}
	}
	for _, r := range []string{"rank-0000", "rank-0002"} {
		os.RemoveAll(filepath.Join(dir, r))
	}
	testenv.Fails(OpenSet(dir))(t, isMissing, "no partition at all")
}

func isMissing(err error) bool {
	_, ok := errors.AsType[*MissingPartitionError](err)
	return ok
}

func TestReadDoesNotAllocate(t *testing.T) {
	samples := makeSamples(50)
	s := openSet(t, writeSet(t, samples, testOptions(2)))
	buf, i := make([]byte, 4096), 0
	testenv.NoAllocations(t, 200, func() {
		var err error
		_, buf, err = s.Read(i%len(samples), buf)
		testenv.OK(t, err)
		i++
	}, "a read")
}

// partlyCopied writes a set of three partitions, of which partition 1 lacks a shard and has another one cut short.
func partlyCopied(t *testing.T) string {
	t.Helper()
	dir := writeSet(t, makeSamples(30), testOptions(3))
	testenv.OK(t, os.Remove(filepath.Join(dir, "rank-0001/00000.imgshard")))
	testenv.OK(t, os.Truncate(filepath.Join(dir, "rank-0001/00001.imgshard"), 300))
	return dir
}

// TestWholePartitions checks that the partitions that are whole are served, and what is said of the other.
func TestWholePartitions(t *testing.T) {
	dir := partlyCopied(t)
	s := testenv.Opened(openWhole(storage.Default, dir, nil))(t)
	testenv.Check(t, !s.Has(1) && s.Has(0) && s.Has(2) && slices.Equal(s.Missing(), []int{1}), "partitions missing: %v", s.Missing())
	damaged := s.Damaged()
	testenv.Require(t, len(damaged) == 1 && damaged[0].Partition == 1 && len(damaged[0].Problems) == 2, "damaged: %v", damaged)
	testenv.Check(t, isCorrupt(damaged[0]) && errors.Is(damaged[0], fs.ErrNotExist), "%v does not wrap what is wrong", damaged[0])
	testenv.Contains(t, damaged[0].Error(), filepath.Join(dir, "rank-0001")+": partition 1 of 3 is not whole, 2 of its ",
		filepath.Join(dir, "rank-0001/00000.imgshard is missing"), filepath.Join(dir, "rank-0001/00001.imgshard: "), "imgshard copy GOOD "+dir)
	for i := range s.Len() {
		_, _, err := s.Read(i, nil)
		testenv.Check(t, (i%3 != 1 || errors.Is(err, error(damaged[0]))) && (i%3 == 1 || err == nil), "sample %d: %v", i, err)
	}
	testenv.OK(t, s.Map())
	testenv.Fails(s.Label(1))(t, error(damaged[0]))
	testenv.Check(t, s.Absence(0) == nil && s.Absence(1) != nil, "absence of 0: %v, of 1: %v", s.Absence(0), s.Absence(1))
	testenv.FailsAs[*DamagedPartitionError](OpenSet(dir))(t)
}

// TestNothingWhole damages every partition.
func TestNothingWhole(t *testing.T) {
	for partitions := range 6 {
		dir := writeSet(t, makeSamples(30), testOptions(partitions+1))
		for r := range partitions + 1 {
			testenv.OK(t, os.Remove(filepath.Join(dir, filepath.FromSlash(shardPath(r, 0)))))
		}
		_, err := openWhole(storage.Default, dir, nil)
		testenv.As[*DamagedPartitionError](t, err, "rank-0000/00000.imgshard")
		testenv.Equal(t, strings.Count(err.Error(), " is not whole, "), min(partitions+1, namedMax), "of %d partitions named", partitions+1)
	}
}

// TestIsExhausted runs out of descriptors: no reason to call files damaged.
func TestIsExhausted(t *testing.T) {
	_, err := os.Open(filepath.Join(t.TempDir(), "nothing"))
	testenv.Check(t, !isExhausted(err), "a file that is not there is taken for a lack of descriptors")
	limitDescriptors(t, 0)
	testenv.Fails(os.Open(os.DevNull))(t, isExhausted)
}

// TestFindAll finds what is whole beside what is damaged.
func TestFindAll(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{"train-shards", "half", "val"} {
		o := testOptions(1)
		o.Split = name
		testenv.OK(t, os.Rename(writeSet(t, makeSamples(3), o), filepath.Join(parent, name)))
	}
	testenv.OK(t, os.Truncate(filepath.Join(parent, "train-shards", manifestName), 100))
	testenv.OK(t, os.Remove(filepath.Join(parent, "half", manifestName)))
	found, err := FindAll(parent)
	testenv.Require(t, err == nil && len(found.Sets) == 1 && found.Sets["val"] == filepath.Join(parent, "val") && len(found.Damaged) == 2,
		"%+v, %v", found, err)
	for i, name := range []string{"half", "train-shards"} {
		testenv.Equal(t, found.Damaged[i].Dir, filepath.Join(parent, name), "a damaged set")
	}
	testenv.Says(t, "without a manifest", found.Damaged[0].Err, "it is missing")
	testenv.As[*CorruptError](t, found.Damaged[1].Err) // with half of one
	testenv.FailsAs[*CorruptError](FindSets(parent))(t, "half", "train-shards")
}

// limitDescriptors lets the process open no descriptor with a number from n on, until the test ends.
func limitDescriptors(t *testing.T, n uint64) {
	t.Helper()
	var old unix.Rlimit
	testenv.OK(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	t.Cleanup(func() { testenv.OK(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) })
	testenv.OK(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}))
}

// TestJoin compares joined sets with their parts, by every method that takes an index.
func TestJoin(t *testing.T) {
	options := testOptions(2)
	options.Classes = []string{"n01484850", "n01440764", "n02000000"}
	samples := [][]Sample{makeSamples(23), makeSamples(1), makeSamples(30)}
	dirs := []string{writeSet(t, samples[0], testOptions(3)), writeSet(t, samples[1], testOptions(1)), writeSet(t, samples[2], options)}
	for _, apart := range []bool{false, true} {
		classes, labels := []string{"n01440764", "n01443537", "n01484850", "n02000000"}, []int32{2, 0, 3}
		if apart {
			classes, labels = slices.Concat(testClasses, testClasses, options.Classes), []int32{6, 7, 8}
		}
		found := testenv.Must(FindJoined(storage.Default, dirs))(t)
		found.Apart = apart
		set := testenv.Opened(found.Open("train", nil))(t)
		testenv.Equal(t, fmt.Sprint(set.Len(), set.Parts(), set.Partitions(), set.Missing()), "54 [23 1 30] 1 []", "what is joined")
		testenv.Require(t, slices.Equal(set.Manifest().Classes, classes), "classes %v", set.Manifest().Classes)
		testenv.OK(t, set.Map())
		i := 0
		for part, of := range samples {
			for _, want := range of {
				label := want.Label
				switch {
				case part == 2:
					label = labels[label]
				case part == 1 && apart:
					label += 3
				}
				read, _, err := set.Read(i, nil)
				view, viewErr := set.View(i)
				got, labelErr := set.Label(i)
				key, keyErr := set.Key(i)
				testenv.OK(t, errors.Join(err, viewErr, labelErr, keyErr))
				testenv.Require(t, read.Label == label && view.Label == label && got == label && key == want.Key,
					"sample %d (%s) has labels %d, %d, %d, want %d", i, key, read.Label, view.Label, got, label)
				testenv.Require(t, bytes.Equal(read.Image, want.Image) && bytes.Equal(view.Aux, want.Aux), "sample %d has another image", i)
				testenv.Between(t, testenv.Must(set.Find(key))(t), 0, i, "where %s is found", key)
				i++
			}
		}
		testenv.Fails(set.Label(54))(t, ErrNotFound)
		testenv.Fails(set.Find("none"))(t, ErrNotFound)
	}
}

// TestJoinOfJoined gives a joined set and a further one the labels of all.
func TestJoinOfJoined(t *testing.T) {
	options, samples := testOptions(2), makeSamples(8)
	options.Classes = []string{"n01484850", "n01440764", "n02000000"}
	open := func(o SetOptions) *Set { return testenv.Must(OpenSet(writeSet(t, samples, o)))(t) }
	first := testenv.Must(Join([]*Set{open(options), open(testOptions(1))}, false))(t)
	set := testenv.Opened(Join([]*Set{open(testOptions(3)), first}, false))(t)
	testenv.Equal(t, fmt.Sprint(set.Len(), set.Parts()), "24 [8 16]", "samples and parts")
	classes := [][]string{testClasses, options.Classes, testClasses}
	for i := range set.Len() {
		label := testenv.Must(set.Label(i))(t)
		testenv.Equal(t, set.Manifest().Classes[label], classes[i/8][samples[i%8].Label], "class of sample %d", i)
	}
}

// TestJoinRefused names what does not go together.
func TestJoinRefused(t *testing.T) {
	dir := writeSet(t, makeSamples(5), testOptions(1))
	other := testOptions(1)
	other.Encoding.Name = "other"
	fields := testOptions(1)
	fields.Fields = Fields{{Name: "score", Type: Float32}}
	val := testOptions(1)
	val.Split = "val"
	with := makeSamples(1)
	with[0].Fields = make([]byte, 4)
	for want, second := range map[string]string{
		"stored as":                 writeSet(t, makeSamples(5), other),
		"fields are [score":         writeSet(t, with, fields),
		"only of train, val":        writeSet(t, makeSamples(5), val),
		"no such file or directory": dir + "-none",
	} {
		found, err := FindJoined(storage.Default, []string{dir, second})
		if err == nil {
			_, err = found.Open("train", nil)
		}
		testenv.Says(t, second, err, want)
	}
}

// TestHostileManifestTakesLittleMemory reads a manifest of a million shards of which nothing is said.
func TestHostileManifestTakesLittleMemory(t *testing.T) {
	body := `{"format":"imgshard","version":1,"shards":[` + strings.Repeat("{},", 1<<20) + "{}],\n "
	text := []byte(body + fmt.Sprintf(manifestTail, crc32c.Checksum([]byte(body))))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := decodeManifest("manifest.json", text)
	runtime.ReadMemStats(&after)
	testenv.As[*CorruptError](t, err, "SHA-256")
	testenv.Between(t, after.TotalAlloc-before.TotalAlloc, 0, 1<<20, "bytes for reading %d", len(text))
}

// TestContent compares sets of the same samples: the content tells images, fields and encodings apart, and nothing else.
func TestContent(t *testing.T) {
	manifest := func(change func([]Sample, *SetOptions)) *Manifest {
		samples, o := makeSamples(20), testOptions(2)
		change(samples, &o)
		return testenv.Must(ReadManifest(writeSet(t, samples, o)))(t)
	}
	base := manifest(func([]Sample, *SetOptions) {})
	for name, tc := range map[string]struct {
		m     *Manifest
		other bool
	}{
		"the same":       {manifest(func([]Sample, *SetOptions) {}), false},
		"other shards":   {manifest(func(_ []Sample, o *SetOptions) { o.ShardSamples = 3 }), false},
		"another image":  {manifest(func(s []Sample, _ *SetOptions) { s[7].Image = append([]byte("x"), s[7].Image...) }), true},
		"another aux":    {manifest(func(s []Sample, _ *SetOptions) { s[7].Aux = []byte("other") }), true},
		"other encoding": {manifest(func(_ []Sample, o *SetOptions) { o.Encoding.Params = []byte(`{"other": 1}`) }), true},
		"none is known":  {&Manifest{Fingerprint: base.Fingerprint}, false},
	} {
		testenv.Check(t, tc.m.OtherContent(base) == tc.other && base.OtherContent(tc.m) == tc.other && tc.m.Fingerprint == base.Fingerprint,
			"%s: content %s, and %s", name, tc.m.Content, base.Content)
	}
}

// TestConventions holds what docs/format/shard.md says of keys, seeds, hexadecimal digits and unknown fields.
func TestConventions(t *testing.T) {
	const seed, key = uint64(math.MaxUint64), "a/\xff\xfe not UTF-8"
	set := openSet(t, writeSet(t, []Sample{{Key: key, Width: 1, Height: 1, Format: 1, Image: []byte("image")}},
		SetOptions{Split: "train", Encoding: Encoding{Name: "jpeg"}, Classes: []string{"a"}, Partitions: 1, Seed: seed}))
	m := set.Manifest()
	testenv.Equal(t, m.Seed, seed, "seed")
	testenv.Equal(t, testenv.Must(set.Key(0))(t), key, "key")
	testenv.Equal(t, testenv.Must(set.Find(key))(t), 0, "index of the key")
	for _, digits := range []string{m.Fingerprint, m.Shards[0].Footer, m.Shards[0].SHA256} {
		testenv.Check(t, regexp.MustCompile(`^[0-9a-f]+$`).MatchString(digits), "%q are not lower-case hexadecimal digits", digits)
	}
	text := testenv.Must(m.encode())(t)
	at := strings.LastIndex(string(text), manifestKey)
	more := strings.Replace(string(text[:at]), "{", `{"later": {"x": [1]},`, 1)
	testenv.Must(decodeManifest("manifest.json", fmt.Appendf([]byte(more), manifestTail, crc32c.Checksum([]byte(more)))))(t)
}
