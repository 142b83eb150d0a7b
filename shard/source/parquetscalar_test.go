package source

import (
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestParquetScalar keeps the sign of numbers of either size.
func TestParquetScalar(t *testing.T) {
	for want, v := range map[any]parquet.Value{
		int64(-16): parquet.Int32Value(-16), int64(-1 << 40): parquet.Int64Value(-1 << 40), true: parquet.BooleanValue(true),
		float32(-.5): parquet.FloatValue(-.5), -.25: parquet.DoubleValue(-.25), "x": parquet.ByteArrayValue([]byte("x")), nil: parquet.NullValue(),
	} {
		if got := parquetScalar(v); got != want {
			t.Errorf("%v is read as %T %[2]v, want %T %[3]v", v, got, want)
		}
	}
}
