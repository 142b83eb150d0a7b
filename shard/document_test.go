package shard

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

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
			t.Errorf("%q are no lower-case hexadecimal digits", digits)
		}
	}
	text, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(string(text), manifestKey)
	more := strings.Replace(string(text[:at]), "{", `{"later": {"x": [1]},`, 1)
	if _, err := decodeManifest("manifest.json", fmt.Appendf([]byte(more), manifestTail, checksum([]byte(more)))); err != nil {
		t.Errorf("with a field that this version does not know: %v", err)
	}
}
