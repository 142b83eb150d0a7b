package shard

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// FuzzIndexTable opens any bytes as a file of an index, whose table says where each image lies; with sign, what the manifest says and the
// checksums are made to fit first. Of an accepted table each byte of the shard must be of one image, of the file, or a zero.
func FuzzIndexTable(f *testing.F) {
	dir := writeIndex(f, "/source", "a.jpg", bytes.Repeat([]byte("image"), 30), storage.Object{Bytes: 150})
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.imgshard"))
	if err != nil || len(paths) != 1 {
		f.Fatalf("%v: %v", paths, err)
	}
	data, err := os.ReadFile(paths[0])
	if err != nil {
		f.Fatal(err)
	}
	for _, sign := range []bool{false, true} {
		f.Add(data, uint32(1), sign)
		f.Add(data[:len(data)-1], uint32(1), sign)
		f.Add(data[len(data)-locationSize-trailerSize:], uint32(1), sign)
		far := bytes.Clone(data) // The image would end behind the largest number.
		binary.LittleEndian.PutUint64(far[len(far)-locationSize-trailerSize:], 1<<63-1)
		f.Add(far, uint32(1), sign)
	}
	f.Fuzz(func(t *testing.T, data []byte, samples uint32, sign bool) {
		size, samples := int64(len(data)), samples%1000
		info := &ShardInfo{Samples: int(samples), Index: &ShardIndex{Bytes: size}}
		if table := size - trailerSize - locationSize*int64(samples); sign && table >= 0 {
			data = bytes.Clone(data)
			end := data[size-trailerSize:]
			le := binary.LittleEndian
			copy(end, magicIndex)
			le.PutUint32(end[8:], uint32(version1))
			le.PutUint32(end[12:], samples)
			info.Bytes, info.Index.Tail = int64(le.Uint64(end[16:])), int64(le.Uint64(end[40:]))
			le.PutUint32(end[trailerCRCAt-4:], crc32c.Checksum(data[table:size-trailerSize]))
			le.PutUint32(end[trailerCRCAt:], crc32c.Checksum(end[:trailerCRCAt]))
		}
		x := &indexedFile{set: &indexedStorage{objects: &objectLines{starts: make([]uint32, 2)}}, File: memoryFile{Reader: bytes.NewReader(data)}}
		if x.openTable(info) != nil {
			return
		}
		for at, pieces := int64(0), 0; at < x.Length; pieces++ {
			length, image, from := x.piece(at)
			if length <= 0 || length > x.Length-at || pieces > 3*int(samples)+3 {
				t.Fatalf("a piece of %d bytes at %d of %d", length, at, x.Length)
			}
			if image != nil && (at < image.at || at-image.at+length > int64(image.length)) || image == nil && from > max(size-length, -1) {
				t.Fatalf("%d bytes at %d are of %+v, or at %d of a file of %d", length, at, image, from, size)
			}
			at += length
		}
	})
}
