package source

import (
	"testing"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
)

// Whatever a member of text or JSON holds, it is a value of the field or refused, without more memory than it is long.
func FuzzFieldValues(f *testing.F) {
	f.Add([]byte(`{"score": [1, 2.5], "a": {"b": true}}`))
	f.Add([]byte("3 4"))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, flag := range []string{"x=json.score:float32[2]", "x=json.a.b:int64", "x=json", "x=txt", "x=txt:int64[2]", "x=txt:multihot[9]"} {
			field, err := dataset.ParseField(flag)
			if err == nil {
				err = bindMember("x.tar", &field)
			}
			if err != nil {
				t.Fatal(err)
			}
			values, err := appendMember(&field, nil, content)
			if err != nil {
				continue
			}
			one := field.Field
			if !one.Numeric() {
				one.BytesMax = shard.RecordBytesMax
			}
			if _, err := (shard.Fields{one}).Split(values, nil); err != nil || len(values) > len(content)+36+one.Width() {
				t.Fatalf("%s of %q: %q, %v", flag, content, values, err)
			}
		}
	})
}
