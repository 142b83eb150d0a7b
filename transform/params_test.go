package transform

import "testing"

func TestParamsInt32s(t *testing.T) {
	if got, want := (Params{-1, 2, 3, 4, true}).Int32s(), [ParamsLen]int32{-1, 2, 3, 4, 1}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := (Params{}).Int32s(); got != [ParamsLen]int32{} {
		t.Errorf("%v, want zeros", got)
	}
}
