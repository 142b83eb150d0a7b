package shard

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/storage"
)

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
		set := testenv.Must(found.Open("train", nil))(t)
		defer set.Close()
		if set.Len() != 54 || !slices.Equal(set.Parts(), []int{23, 1, 30}) || !slices.Equal(set.Manifest().Classes, classes) || set.Partitions() != 1 || len(set.Missing()) > 0 {
			t.Fatalf("%d samples of %v, classes %v", set.Len(), set.Parts(), set.Manifest().Classes)
		}
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
				at, err := set.Find(key)
				testenv.Require(t, err == nil && at <= i, "%s is found at %d: %v", key, at, err)
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
	set := testenv.Must(Join([]*Set{open(testOptions(3)), first}, false))(t)
	defer set.Close()
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
