package shard

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzReader opens and reads any bytes; with sign, their checksums are made right first, so that what lies behind the
// checksums is reached.
func FuzzReader(f *testing.F) {
	paths, err := filepath.Glob(goldenDir + "/*/*/*.imgshard")
	if err != nil || len(paths) == 0 {
		f.Fatalf("%v: %v", paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, false)
		f.Add(data, true)
		f.Add(data[:len(data)-footerSize], true)
	}
	f.Add([]byte(magicStart), false)
	f.Fuzz(func(t *testing.T, data []byte, sign bool) {
		if sign && len(data) >= prefixSize+footerSize {
			data = append([]byte(nil), data...)
			foot := parseFooter(data[len(data)-footerSize:])
			resign(data, &foot)
		}
		r, err := openBytes(data)
		if err != nil {
			return
		}
		keys, keysErr := r.Keys()
		var buf []byte
		for j := range r.Len() {
			var rec Record
			rec, buf, err = r.Read(j, buf)
			if err != nil && !isCorrupt(err) {
				t.Fatal(err)
			}
			if len(buf) > 2*(len(data)+SlackBytes)+4096 {
				t.Fatalf("a buffer of %d bytes for a file of %d", len(buf), len(data))
			}
			if err == nil {
				_, _ = rec.Image[:len(rec.Image)+SlackBytes], rec.Aux[:len(rec.Aux)+SlackBytes]
			}
			if keysErr == nil {
				keys.At(j)
			}
		}
	})
}

// FuzzManifest decodes any bytes; what is accepted must be encoded to something that is accepted, too.
func FuzzManifest(f *testing.F) {
	paths, err := filepath.Glob(goldenDir + "/*/" + manifestName)
	if err != nil || len(paths) == 0 {
		f.Fatalf("%v: %v", paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeManifest("manifest.json", data)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeManifest("manifest.json", again); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
	})
}
