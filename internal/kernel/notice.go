package kernel

import (
	"fmt"
	"runtime"
)

// Toolchain is the release of Go that builds the accelerated kernels, as GOTOOLCHAIN takes it: that of go.mod's toolchain line.
// Their build constraints allow for its patch releases, as simd/archsimd, which they are written for, is an experiment that
// changes from one release to the next.
const Toolchain = "go1.27.4"

// Notice says in one line that this binary has no accelerated kernels and how to get one that has; it returns "" for a binary
// that has them, and where there are none.
func Notice() string {
	if compiled != Generic || len(ofArchitecture(runtime.GOARCH)) == 1 {
		return ""
	}
	return fmt.Sprintf("this binary has no accelerated kernels (it was built by %s) and is several times as slow as one that has: "+
		"build that by make, or by GOTOOLCHAIN=%s GOEXPERIMENT=simd go install github.com/imgfeed/imgfeed/cmd/...@latest",
		runtime.Version(), Toolchain)
}
