package shard

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestHostileManifestTakesLittleMemory reads a manifest of a million shards of which nothing is said.
func TestHostileManifestTakesLittleMemory(t *testing.T) {
	body := `{"format":"imgshard","version":1,"shards":[` + strings.Repeat("{},", 1<<20) + "{}],\n "
	text := []byte(body + fmt.Sprintf(manifestTail, crc32c.Checksum([]byte(body))))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := decodeManifest("manifest.json", text)
	runtime.ReadMemStats(&after)
	if _, ok := errors.AsType[*CorruptError](err); !ok || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("error %v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("reading %d bytes took %d", len(text), took)
	}
}

// TestContent compares sets of the same samples: the content tells images, fields and encodings apart, and nothing else.
func TestContent(t *testing.T) {
	manifest := func(change func([]Sample, *SetOptions)) *Manifest {
		samples, o := makeSamples(20), testOptions(2)
		change(samples, &o)
		m := testenv.Must(ReadManifest(writeSet(t, samples, o)))(t)
		return m
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
		if tc.m.OtherContent(base) != tc.other || base.OtherContent(tc.m) != tc.other || tc.m.Fingerprint != base.Fingerprint {
			t.Errorf("%s: content %s, and %s", name, tc.m.Content, base.Content)
		}
	}
}

// TestConventions holds what docs/format/shard.md says of keys, seeds, hexadecimal digits and unknown fields.
func TestConventions(t *testing.T) {
	const seed, key = uint64(math.MaxUint64), "a/\xff\xfe not UTF-8"
	set := openSet(t, writeSet(t, []Sample{{Key: key, Width: 1, Height: 1, Format: 1, Image: []byte("image")}},
		SetOptions{Split: "train", Encoding: Encoding{Name: "jpeg"}, Classes: []string{"a"}, Partitions: 1, Seed: seed}))
	m := set.Manifest()
	if m.Seed != seed {
		t.Errorf("seed %d, want %d", m.Seed, seed)
	}
	if got, err := set.Key(0); err != nil || got != key {
		t.Errorf("key %q, %v", got, err)
	}
	if i, err := set.Find(key); err != nil || i != 0 {
		t.Errorf("the key is found at %d, %v", i, err)
	}
	for _, digits := range []string{m.Fingerprint, m.Shards[0].Footer, m.Shards[0].SHA256} {
		if !regexp.MustCompile(`^[0-9a-f]+$`).MatchString(digits) {
			t.Errorf("%q are not lower-case hexadecimal digits", digits)
		}
	}
	text := testenv.Must(m.encode())(t)
	at := strings.LastIndex(string(text), manifestKey)
	more := strings.Replace(string(text[:at]), "{", `{"later": {"x": [1]},`, 1)
	if _, err := decodeManifest("manifest.json", fmt.Appendf([]byte(more), manifestTail, crc32c.Checksum([]byte(more)))); err != nil {
		t.Errorf("with a field that this version does not know: %v", err)
	}
}
