package shard

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestHostileManifestTakesLittleMemory reads a manifest of a million shards of which nothing is said.
func TestHostileManifestTakesLittleMemory(t *testing.T) {
	body := `{"format":"imgshard","version":1,"shards":[` + strings.Repeat("{},", 1<<20) + "{}],\n "
	text := []byte(body + fmt.Sprintf(manifestTail, checksum([]byte(body))))
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
		m, err := ReadManifest(writeSet(t, samples, o))
		if err != nil {
			t.Fatal(err)
		}
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
