package matfile

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

// testdata/synsets.mat is by scipy.io.savemat of scipy 1.17 (compressed): 6 synsets with the fields of the devkit's, in several number types.
func readTestFile(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/synsets.mat")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReadStructOfSciPy(t *testing.T) {
	s, err := ReadStruct(readTestFile(t), "synsets")
	if err != nil {
		t.Fatal(err)
	}
	wantFields := []string{"ILSVRC2012_ID", "WNID", "words", "gloss", "num_children", "children", "wordnet_height", "num_train_images"}
	if !reflect.DeepEqual(s.Fields, wantFields) {
		t.Fatalf("fields %q, want %q", s.Fields, wantFields)
	}
	if len(s.Rows) != 6 {
		t.Fatalf("%d rows, want 6", len(s.Rows))
	}
	for i, want := range []struct {
		id       float64
		wnid     string
		words    string
		children []float64
	}{
		{1, "n03", "kit fox, Vulpes macrotis", nil}, {2, "n01", "English setter", nil}, {3, "n04", "café €", nil}, {4, "n02", "Australian terrier", nil},
		{5, "n90", "animal", []float64{1, 2}}, {600, "n91", "thing", []float64{5, 3, 4}},
	} {
		row := s.Rows[i]
		if got := row[0].Numbers; len(got) != 1 || got[0] != want.id {
			t.Errorf("row %d: ID %v, want %v", i, got, want.id)
		}
		if row[1].Text != want.wnid || row[2].Text != want.words {
			t.Errorf("row %d: %q %q, want %q %q", i, row[1].Text, row[2].Text, want.wnid, want.words)
		}
		if got := row[5].Numbers; len(got) != len(want.children) || (len(got) > 0 && !reflect.DeepEqual(got, want.children)) {
			t.Errorf("row %d: children %v, want %v", i, got, want.children)
		}
	}
}

// element encodes a data element of the regular form.
func element(order binary.ByteOrder, typ uint32, body []byte) []byte {
	b := make([]byte, 8, 8+len(body)+8)
	order.PutUint32(b, typ)
	order.PutUint32(b[4:], uint32(len(body)))
	b = append(b, body...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// array encodes an array's element from its class, dimensions, name and the elements of its content.
func array(order binary.ByteOrder, class uint32, rows, columns int, name string, content ...[]byte) []byte {
	flags, dims := make([]byte, 8), make([]byte, 8)
	order.PutUint32(flags, class)
	order.PutUint32(dims, uint32(rows))
	order.PutUint32(dims[4:], uint32(columns))
	body := bytes.Join(append([][]byte{element(order, typeUint32, flags), element(order, typeInt32, dims), element(order, typeInt8, []byte(name))}, content...), nil)
	return element(order, typeMatrix, body)
}

// file encodes a MAT-file with one struct array s of the fields "a" (a number) and "b" (a text).
func file(order binary.ByteOrder, compressed bool, a []uint16, b []string) []byte {
	header := make([]byte, headerBytes)
	order.PutUint16(header[124:], 0x0100)
	order.PutUint16(header[126:], 'M'<<8|'I')
	width := make([]byte, 4)
	order.PutUint32(width, 4)
	content := [][]byte{element(order, typeInt32, width), element(order, typeInt8, []byte("a\x00\x00\x00b\x00\x00\x00"))}
	for i := range a {
		n := make([]byte, 2)
		order.PutUint16(n, a[i])
		units := make([]byte, 2*len(b[i]))
		for j := range b[i] {
			order.PutUint16(units[2*j:], uint16(b[i][j]))
		}
		content = append(content, array(order, classDouble, 1, 1, "", element(order, typeUint16, n)),
			array(order, classChar, 1, len(b[i]), "", element(order, typeUint16, units)))
	}
	s := array(order, classStruct, len(a), 1, "s", content...)
	if compressed {
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		w.Write(s)
		w.Close()
		packed := make([]byte, 8)
		order.PutUint32(packed, typeCompressed)
		order.PutUint32(packed[4:], uint32(z.Len()))
		s = append(packed, z.Bytes()...)
	}
	return append(header, s...)
}

func TestReadStructOfBothByteOrders(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, compressed := range []bool{false, true} {
			s, err := ReadStruct(file(order, compressed, []uint16{7, 300}, []string{"x", "yz"}), "s")
			if err != nil {
				t.Fatalf("%v compressed=%v: %v", order, compressed, err)
			}
			if s.Rows[0][0].Numbers[0] != 7 || s.Rows[1][0].Numbers[0] != 300 || s.Rows[0][1].Text != "x" || s.Rows[1][1].Text != "yz" {
				t.Errorf("%v compressed=%v: %v", order, compressed, s.Rows)
			}
			if s.Field("b") != 1 || s.Field("c") != -1 {
				t.Errorf("fields %q", s.Fields)
			}
		}
	}
}

func TestReadStructRefusesWhatIsMalformed(t *testing.T) {
	good := file(binary.LittleEndian, false, []uint16{7}, []string{"x"})
	change := func(at int, b ...byte) []byte {
		c := bytes.Clone(good)
		copy(c[at:], b)
		return c
	}
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"empty":          {nil, "no header"},
		"no endian mark": {change(126, 'X', 'X'), "endian"},
		"version 7.3":    {change(124, 0, 2), "version 0x0200"},
		"cut short":      {good[:len(good)-16], "are left"},
		"element length": {change(headerBytes+4, 255, 255, 255, 255), "are left"},
		"no flags":       {change(headerBytes+8, 9), "array flags"},
		"huge dimension": {change(headerBytes+8+16+8, 255, 255, 255, 127, 255, 255, 255, 127), "dimension"},
		"many elements":  {change(headerBytes+8+16+8, 255, 255, 255, 0), "at most"},
		"other name":     {change(headerBytes+8+16+16+8, 'z'), `no struct array "s"`},
	} {
		_, err := ReadStruct(tc.data, "s")
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want a FormatError with %q", name, err, tc.want)
		}
	}
}

func FuzzReadStruct(f *testing.F) {
	f.Add(readTestFile(f))
	f.Add(file(binary.LittleEndian, false, []uint16{7}, []string{"x"}))
	f.Add(file(binary.BigEndian, true, []uint16{7}, []string{"x"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadStruct(data, "s")
		var format *FormatError
		if err != nil && !errors.As(err, &format) {
			t.Fatalf("error of type %T: %v", err, err)
		}
		if err == nil {
			for _, row := range s.Rows {
				if len(row) != len(s.Fields) {
					t.Fatalf("row of %d values for %d fields", len(row), len(s.Fields))
				}
			}
		}
	})
}
