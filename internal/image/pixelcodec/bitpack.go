package pixelcodec

import (
	"encoding/binary"
	"image"
	"slices"
)

// bitpackCodec packs groups of 8 by 2 residuals as bit planes.
//
// A band is a run of row pairs. A pair is:
//
//	half its payload's length, u16 | a header of 6 bytes for each chunk | the chunks' payloads.
//
// A chunk's payload holds, for each of its three planes, the bit planes of the top row of its four groups and then those of the bottom row.
type bitpackCodec struct {
	base
	tables *groupTables
	codes  *codeTable // made by the first Encode
	window window
	pos    int // start of the next pair
	// headers is a copy of the current pair's headers: a blob may be in a mapped file, which another process may change
	// at any time, and the checked bytes must be the ones used.
	headers []byte
	enc     pairEncoder
}

const (
	pairLengthBytes = 2
	// chunkPayloadMax is the size of a chunk with eight planes in every group.
	chunkPayloadMax = chunkResiduals
)

func newBitpack(b base) *bitpackCodec {
	c := &bitpackCodec{base: b, tables: newGroupTables(b.params.Groups)}
	c.decoder = c
	return c
}

func (c *bitpackCodec) decode(t target, blob []byte, h header, r image.Rectangle) error {
	c.window.begin(c.withSlack(blob), h, r)
	c.headers = slices.Grow(c.headers[:0], chunkHeaderBytes*h.chunks()+SlackBytes)
	c.headers = c.headers[:cap(c.headers)]
	return decodeRows(&c.window, &c.base, c, &t, r)
}

func (c *bitpackCodec) seek(band int) (err error) {
	c.pos, err = c.window.bandStart(band)
	return err
}

// next decodes one pair of rows. It checks that the groups' widths add up to the payload's length, so kernels need no
// bounds checks: all chunks start within the payload, and reads end within SlackBytes behind it. That holds even if the
// blob is changed meanwhile, because the length and the headers are read only once.
func (c *bitpackCodec) next(first bool) error {
	w := &c.window
	start := c.pos
	headerStart := start + pairLengthBytes
	payloadStart := headerStart + chunkHeaderBytes*w.chunks
	if payloadStart > len(w.blob) {
		return &FormatError{Offset: start, Msg: "a row pair is cut short"}
	}
	payload := 2 * int(binary.LittleEndian.Uint16(w.blob[start:]))
	end := payloadStart + payload
	if end > len(w.blob) {
		return &FormatError{Offset: start, Msg: "a row pair is longer than what is left"}
	}
	withSlack := w.blob[:end+SlackBytes]
	headers := withSlack[headerStart:]
	n, skip := chunkHeaderBytes*w.chunks, chunkHeaderBytes*w.firstChunk
	total, before := c.kernels.measure(c.tables, c.headers, headers, n, skip)
	if 2*total != payload {
		return &FormatError{Offset: start, Msg: "a row pair's length is not what its groups take"}
	}
	chunks := w.lastChunk - w.firstChunk
	ahead := c.share(3*chunks, c.headers)
	c.kernels.unpack(c.tables, c.headers[skip:], withSlack[payloadStart+2*before:], &w.rows, chunks, first, ahead)
	c.pos = end
	return nil
}

func (c *bitpackCodec) Encode(dst, rgb []byte, stride, w, h int) ([]byte, error) {
	if err := checkSource(rgb, stride, w, h); err != nil {
		return nil, err
	}
	if c.codes == nil {
		c.codes = newCodeTable(c.params.Groups)
	}
	head := header{width: w, height: h, bandLog: c.params.bandLog(), codec: c.id}
	c.enc.begin(&c.kernels, rgb, stride, head)

	chunks, pairs := head.chunks(), (h+1)/2
	pairMax := pairLengthBytes + (chunkHeaderBytes+chunkPayloadMax)*chunks
	blob := len(dst)
	dst = slices.Grow(dst, headerBytes+offsetBytes*head.bands()+pairMax*pairs+SlackBytes)
	dst = head.append(dst)
	offsets := len(dst)
	n := offsets + offsetBytes*head.bands()
	dst = dst[:cap(dst)]
	for p := range pairs {
		first := 2*p&(1<<head.bandLog-1) == 0
		if first {
			binary.LittleEndian.PutUint32(dst[offsets+offsetBytes*(2*p>>head.bandLog):], uint32(n-blob))
		}
		headers := dst[n+pairLengthBytes:]
		payload := headers[chunkHeaderBytes*chunks:]
		size := c.kernels.pack(c.tables, c.codes, headers, payload, c.enc.pair(2*p, first), chunks)
		binary.LittleEndian.PutUint16(dst[n:], uint16(size/2))
		n += pairLengthBytes + chunkHeaderBytes*chunks + size
	}
	return dst[:n], nil
}
