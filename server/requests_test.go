package server

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/imgfeed/imgfeed/server/internal/wire"
)

// frameText returns the JSON text of a message's frame.
func frameText(t testing.TB, m any) []byte {
	t.Helper()
	frame, err := appendFrame(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	text, err := wire.NewReader(bytes.NewReader(frame), wire.ReplyBytesMax).Next()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestMessagesSurviveEncoding(t *testing.T) {
	for _, m := range []any{
		helloRequest{Version: 1},
		openRequest{
			Split: "train", Transform: json.RawMessage(`"train"`), BatchSize: 3, Seed: of[int64](-7), Shuffle: true, Rank: of(1), World: of(4),
			Slots: 2, WithParams: true, WithRepetitions: true, OnError: onErrorBlank,
		},
		keyRequest{Index: 5}, sampleRequest{Index: 5}, orderRequest{Epoch: 2}, startRequest{Epoch: 3, Consumed: 99}, selectRequest{List: 3, OfRank: true, Weights: 3, Repeats: 2, Positions: 5}, releaseRequest{Slot: 1}, stopRequest{}, statsRequest{}, labelsRequest{}, classesRequest{},
	} {
		if _, got, err := requestMessages.DecodeRequest(frameText(t, m)); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%#v came back as %#v, %v", m, got, err)
		}
	}
	for _, m := range []any{
		batchMessage{Generation: 1, Batch: 2, Count: 3, Slot: of(0), Consumed: 12}, batchMessage{Generation: 1, Bytes: 77, Bad: []badPlace{{Place: 2, Index: 40, Key: "k", By: of(7), Error: "x"}}},
		endMessage{Generation: 9, Epoch: 2}, errorMessage{ErrKind: kindCorrupt, Message: "m", Generation: 4}, keyReply{Index: 5, Key: "a/b.JPEG"},
	} {
		if _, got, err := replies.DecodeReply(frameText(t, m)); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%#v came back as %#v, %v", m, got, err)
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, r := range requests {
		f.Add(frameText(f, r.empty))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		kind, m, err := requestMessages.DecodeRequest(text)
		if err != nil {
			return
		}
		again, _, err := requestMessages.DecodeRequest(frameText(t, m))
		if err != nil || again != kind {
			t.Errorf("%q decodes to %#v, which does not survive encoding: %v", text, m, err)
		}
	})
}
