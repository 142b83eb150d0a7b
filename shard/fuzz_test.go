package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// seeds are the contents of the files that a pattern matches.
func seeds(f *testing.F, pattern string) (all [][]byte) {
	f.Helper()
	for _, path := range testenv.Must(filepath.Glob(pattern))(f) {
		all = append(all, testenv.Must(os.ReadFile(path))(f))
	}
	testenv.Require(f, len(all) > 0, "no file is called %s", pattern)
	return all
}

// FuzzReader opens and reads any bytes; with sign, their checksums are made right first, so that what lies after the checksums is reached.
func FuzzReader(f *testing.F) {
	for _, data := range seeds(f, "testdata/v*/*/*/*.imgshard") {
		f.Add(data, false)
		f.Add(data, true)
		f.Add(data[:len(data)-footerSize], true)
	}
	f.Add(seeds(f, filepath.Join(targetSet(f), shardPath(0, 0)))[0], true)
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
			testenv.Require(t, err == nil || isCorrupt(err), "%v", err)
			testenv.Between(t, len(buf), 0, 2*(len(data)+SlackBytes)+4096, "bytes of a buffer for a file of %d", len(data))
			if err == nil {
				_, _ = rec.Image[:len(rec.Image)+SlackBytes], rec.Aux[:len(rec.Aux)+SlackBytes]
				fields := r.header.Fields.bounded(RecordBytesMax)
				split, _ := fields.Split(rec.Fields, nil)
				for i, value := range split {
					fields[i].JSON(value) // which reads objects
				}
			}
			if keysErr == nil {
				keys.At(j)
			}
		}
	})
}

// FuzzManifest decodes any bytes; with sign, the checksum is made right first. A manifest that is accepted must be
// encoded to one that is accepted, too.
func FuzzManifest(f *testing.F) {
	for _, data := range append(seeds(f, "testdata/v*/*/"+manifestName), seeds(f, filepath.Join(targetSet(f), manifestName))...) {
		f.Add(data, false)
		f.Add(data, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sign bool) {
		if at := bytes.LastIndex(data, []byte(manifestKey)); sign && at >= 0 {
			data = fmt.Appendf(data[:at:at], manifestTail, crc32c.Checksum(data[:at]))
		}
		m, err := decodeManifest("manifest.json", data)
		if err != nil {
			return
		}
		testenv.Must(decodeManifest("manifest.json", testenv.Must(m.encode())(t)))(t)
	})
}

// TestMutatedFiles writes strange numbers over a shard's structure, with the checksums made right or not, many times:
// reading gives the samples or a *CorruptError.
func TestMutatedFiles(t *testing.T) {
	good := shardBytes(t, 6)
	ranges := sections(t, good)
	names := []string{"header", "entries", "keys", "footer"}
	strange := []uint64{0, 1, 7, 8, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<63 - 1, 1 << 63, 1<<64 - 1, uint64(len(good)), uint64(len(good)) - footerSize}
	rng := rand.New(rand.NewPCG(11, 13))
	refused := 0
	const rounds = 20000
	for round := range rounds {
		p := bytes.Clone(good)
		for range 1 + rng.IntN(3) {
			span := ranges[names[rng.IntN(len(names))]]
			at := span[0] + rng.Int64N(span[1]-span[0])
			value := strange[rng.IntN(len(strange))]
			switch rng.IntN(3) {
			case 0:
				p[at] = byte(rng.Uint32())
			case 1:
				if at = at &^ 3; at+4 <= int64(len(p)) {
					binary.LittleEndian.PutUint32(p[at:], uint32(value))
				}
			case 2:
				if at = at &^ 7; at+8 <= int64(len(p)) {
					binary.LittleEndian.PutUint64(p[at:], value)
				}
			}
		}
		if round%4 != 0 {
			f := parseFooter(p[len(p)-footerSize:])
			resign(p, &f)
		}
		if err := readAll(p); err != nil {
			_, unsupported := errors.AsType[*UnsupportedError](err)
			testenv.Require(t, isCorrupt(err) || unsupported, "round %d: %v", round, err)
			refused++
		}
	}
	testenv.Between(t, refused, rounds/2, rounds-1, "of %d files refused", rounds)
}
