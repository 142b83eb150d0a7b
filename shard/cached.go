package shard

import (
	"errors"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// VerifyCached reads the records that a cache keeps of a shard, and has it forget those whose checksum is wrong. It returns how many records are kept, and how many
// were forgotten. Of a file whose index is damaged or not kept, everything is forgotten.
func VerifyCached(cache *storage.Cache, info storage.ObjectInfo) (kept, forgotten int, err error) {
	file, err := cache.Open(info)
	if err != nil {
		return 0, 0, err
	}
	end := make([]byte, trailerSize)
	if _, err := file.ReadAt(end, file.Size()-trailerSize); err == nil && string(end[:len(magicIndex)]) == magicIndex {
		return 0, 0, file.Close() // of an index, whose records are checked where the images are with them
	}
	r, err := openReader(info.Place, file, false) // which closes the file if it fails
	if err != nil {
		return 0, 1, cache.Remove(info)
	}
	defer r.Close()
	var buf []byte
	for j := range r.Len() {
		e, err := r.Entry(j)
		if err != nil {
			return kept, forgotten, err
		}
		buf = growBuffer(buf, int(e.length())+SlackBytes)
		_, err = r.file.ReadAt(buf[:e.length()], e.Offset)
		if errors.Is(err, storage.ErrNotKept) {
			continue
		}
		if err == nil {
			_, err = r.check(j, e, buf[:e.length()])
		}
		if kept++; err != nil {
			kept--
			forgotten++
			file.Forget(e.Offset, e.length())
		}
	}
	return kept, forgotten, nil
}
