package registry

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/jpeg"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/coefficients"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	"github.com/imgfeed/imgfeed/shard/encoding/pixels"
)

// TestMethods checks what everybody counts on: names and flags of one encoding alone, and manifests that read back as what the flags said.
func TestMethods(t *testing.T) {
	names, disk, flags := map[string]bool{}, map[string]bool{}, map[string]bool{"encoding": true}
	for _, m := range methods {
		testenv.Check(t, m.Name != "" && m.OnDisk != "" && m.Summary != "" && !names[m.Name] && !disk[m.OnDisk], "%+v", m)
		names[m.Name], disk[m.OnDisk] = true, true
		for _, o := range m.Options {
			testenv.Check(t, o.Help != "" && !flags[o.Name], "%s: option %+v", m.Name, o)
			flags[o.Name] = true
		}
		for _, small := range []bool{false, true} {
			e := testenv.Must(m.New(nil, small))(t)
			again, err := Open(e.Stored())
			testenv.Check(t, err == nil && again.String() == e.String() && e.Stored().Name == m.OnDisk && strings.HasPrefix(e.String(), m.Name),
				"%v reads back as %v, %v", e, again, err)
		}
	}
	testenv.Check(t, Default().HoldsOriginals(), "unless told otherwise %v is packed, which loses the files", Default())
}

// TestDescribe describes what cannot be opened by its name.
func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		stored shard.Encoding
		want   string
	}{
		{shard.Encoding{Name: "jpeg"}, "original"},
		{shard.Encoding{Name: "pixels", Params: []byte(`{"codec":"lz4","resize":"8x9","interpolation":"box"}`)}, "pixels (lz4, resize 8x9 box, pillow-12)"},
		{shard.Encoding{Name: "pixels", Params: []byte(`{"codec":"brotli"}`)}, "pixels"},
		{shard.Encoding{Name: "wavelets"}, "wavelets"},
	} {
		testenv.Equal(t, Describe(c.stored), c.want, "%v is described", c.stored)
	}
}

// gradient returns a JPEG file.
func gradient(t *testing.T, width, height int) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, width, height))
	for i := range m.Pix {
		m.Pix[i] = uint8(i * 7)
	}
	var out bytes.Buffer
	testenv.OK(t, jpeg.Encode(&out, m, nil))
	return out.Bytes()
}

// verifyImages verifies a set with its images and returns what was wrong.
func verifyImages(t *testing.T, dir string) (problems []string) {
	t.Helper()
	m := testenv.Must(shard.ReadManifest(dir))(t)
	e := testenv.Must(Open(m.Encoding))(t)
	report, err := shard.Verify(context.Background(), dir, shard.VerifyOptions{
		Jobs: 1, NewCheck: func() func(*shard.Record) error { return encoding.NewWorker(e).Check }, Problem: func(err error) { problems = append(problems, err.Error()) },
	})
	testenv.Require(t, err == nil && report.Problems == len(problems), "%+v, %v", report, err)
	return problems
}

// writeForged writes a set of one image, its sample changed by forge before it is given its checksum.
func writeForged(t *testing.T, e encoding.Encoding, forge func(s *shard.Sample)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set")
	w := testenv.Must(shard.NewSetWriter(dir, shard.SetOptions{Split: "train", Encoding: e.Stored(), Classes: []string{"a"}}))(t)
	defer w.Abort()
	s := shard.Sample{Key: "a/1.jpg", Image: gradient(t, 200, 100)}
	testenv.OK(t, e.NewWorker().Encode(&s, &encoding.Scratch{}))
	forge(&s)
	testenv.OK(t, w.Append(s))
	testenv.Must(w.Commit())(t)
	return dir
}

// TestCheckFindsForgedRecords forges what checksums cannot tell.
func TestCheckFindsForgedRecords(t *testing.T) {
	stored := testenv.Must(pixels.Method.Parse(nil))(t)
	for _, c := range []struct {
		name, want string
		encoding   encoding.Encoding
		forge      func(s *shard.Sample)
	}{
		{"nothing", "", original.Encoding{}, func(*shard.Sample) {}},
		{"row index", "row index", original.Encoding{}, func(s *shard.Sample) {
			s.Aux = bytes.Clone(s.Aux)
			n := len(s.Aux) - 4
			s.Aux[n-1] ^= 2
			binary.LittleEndian.PutUint32(s.Aux[n:], crc32.Checksum(s.Aux[:n], crc32.MakeTable(crc32.Castagnoli)))
		}},
		{"no row index", "row index", original.Encoding{}, func(s *shard.Sample) { s.Aux = nil }},
		{"width", "201×100", original.Encoding{}, func(s *shard.Sample) { s.Width++ }},
		{"format", "the entry says png", original.Encoding{}, func(s *shard.Sample) { s.Format = imagefile.PNG }},
		{"half an image", "jpeg", original.Encoding{}, func(s *shard.Sample) { s.Image = s.Image[:len(s.Image)/2] }},
		{"nothing", "", coefficients.Encoding{}, func(*shard.Sample) {}},
		{"width", "201×100", coefficients.Encoding{}, func(s *shard.Sample) { s.Width++ }},
		{"format", "not an image", coefficients.Encoding{}, func(s *shard.Sample) { s.Format = imagefile.JPEG }},
		{"half an image", "coefficients", coefficients.Encoding{}, func(s *shard.Sample) { s.Image = s.Image[:len(s.Image)/2] }},
		{"nothing", "", stored, func(*shard.Sample) {}},
		{"height", "200×99", stored, func(s *shard.Sample) { s.Height-- }},
		{"format", "the entry says jpeg", stored, func(s *shard.Sample) { s.Format = imagefile.JPEG }},
		{"half an image", "pixels", stored, func(s *shard.Sample) { s.Image = s.Image[:len(s.Image)/2] }},
	} {
		problems := verifyImages(t, writeForged(t, c.encoding, c.forge))
		testenv.Equal(t, len(problems), min(len(c.want), 1), "%s: number of problems %q", c.name, problems)
		if c.want != "" {
			testenv.Contains(t, strings.Join(problems, "\n"), c.want, "record 0 (sample 0)")
		}
	}
	testenv.Fails(Open(shard.Encoding{Name: "wavelets"}))(t, "wavelets")
}
