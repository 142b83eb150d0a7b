package transform

import (
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestParamsInt32s(t *testing.T) {
	testenv.Equal(t, (Params{-1, 2, 3, 4, true}).Int32s(), [ParamsLen]int32{-1, 2, 3, 4, 1}, "numbers")
	testenv.Equal(t, (Params{}).Int32s(), [ParamsLen]int32{}, "numbers of nothing")
}
