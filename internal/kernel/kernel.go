// Package kernel reports which accelerated kernels are compiled in, which of them this processor supports, and which are in use. Every
// accelerated function of the project has a generic twin as its reference. The [Level] of this package decides between them.
//
// The environment variable IMGFEED_KERNELS (generic; avx2 or avx512 on x86-64; neon on arm64) lowers the level, for measurements and tests,
// and to exclude the accelerated code when something looks wrong. It never raises the level above the processor's.
package kernel

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/cpu"
)

// A Level is an instruction set that kernels are written for. Each level includes the lower ones of its architecture.
type Level uint8

const (
	// Generic is plain Go, on every platform.
	Generic Level = iota
	// AVX2 is x86-64-v3: AVX2, BMI1, BMI2 and FMA (Haswell, Zen, and every cloud since).
	AVX2
	// AVX512 is AVX2 and AVX-512 F, BW, DQ, VL, VBMI, VBMI2, VNNI, BITALG and GFNI (Ice Lake, Zen 4, and later).
	AVX512
	// NEON is part of every arm64 processor.
	NEON
)

// A Table holds a package's kernels by level: nil for [Generic] and for levels that are not compiled in. The file of
// each level adds its kernels when the program starts.
type Table[Kernels any] [NEON + 1]*Kernels

// EnvVar names the environment variable that lowers the level.
const EnvVar = "IMGFEED_KERNELS"

var names = [...]string{Generic: "generic", AVX2: "avx2", AVX512: "avx512", NEON: "neon"}

// String returns the level's name, as IMGFEED_KERNELS takes it.
func (l Level) String() string {
	if int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("kernel.Level(%d)", uint8(l))
}

// ParseLevel is the inverse of [Level.String].
func ParseLevel(s string) (Level, error) {
	if i := slices.Index(names[:], s); i >= 0 {
		return Level(i), nil
	}
	return Generic, fmt.Errorf("kernel: unknown level %q, want one of %s", s, strings.Join(names[:], ", "))
}

// ofArchitecture returns the levels with kernels for an architecture, compiled in or not, lowest first.
func ofArchitecture(arch string) []Level {
	switch arch {
	case "amd64":
		return []Level{Generic, AVX2, AVX512}
	case "arm64":
		return []Level{Generic, NEON}
	}
	return []Level{Generic}
}

// Compiled returns the highest level compiled in: [Generic] unless the binary was built for amd64 or arm64 with
// GOEXPERIMENT=simd by the Go release of [Toolchain].
func Compiled() Level { return compiled }

// Detected returns the highest level that this processor supports, compiled in or not.
func Detected() Level {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VBMI &&
		cpu.X86.HasAVX512VBMI2 && cpu.X86.HasAVX512VNNI && cpu.X86.HasAVX512BITALG && cpu.X86.HasAVX512GFNI && hasAVX2():
		return AVX512
	case hasAVX2():
		return AVX2
	case runtime.GOARCH == "arm64":
		return NEON
	}
	return Generic
}

func hasAVX2() bool {
	return cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasFMA
}

// Available returns every level that can run here, lowest first. Tests range over it so that each path is compared.
func Available() []Level {
	levels := ofArchitecture(runtime.GOARCH)
	for i, l := range levels {
		if l > min(Compiled(), Detected()) {
			return levels[:i]
		}
	}
	return levels
}

// Active returns the level in use: the lowest of the compiled level, the processor's, and that of IMGFEED_KERNELS. The variable is read
// once. An unknown value, or one for another architecture, means [Generic], the safe choice; [CheckEnv] reports it.
func Active() Level { return active() }

var active = sync.OnceValue(func() Level {
	level, _ := chosen()
	return level
})

// CheckEnv returns an error if IMGFEED_KERNELS is set but is not the name of a level. Programs call it at the start.
func CheckEnv() error {
	_, err := chosen()
	return err
}

// chosen returns the level in use, and the error in IMGFEED_KERNELS.
func chosen() (Level, error) {
	level, here := min(Compiled(), Detected()), ofArchitecture(runtime.GOARCH)
	s := os.Getenv(EnvVar)
	if s == "" {
		return level, nil
	}
	limit, err := ParseLevel(s)
	if err == nil && !slices.Contains(here, limit) {
		err = fmt.Errorf("kernel: %s has no level %q, its levels are %v", runtime.GOARCH, s, here)
	}
	if err != nil {
		return Generic, fmt.Errorf("%s: %w", EnvVar, err)
	}
	return min(level, limit), nil
}

// Toolchain is the release of Go that builds the accelerated kernels, as GOTOOLCHAIN takes it: that of go.mod's toolchain line. Their build
// constraints allow its patch releases only, because simd/archsimd is an experiment that changes from release to release.
const Toolchain = "go1.27.4"

// Notice returns a line about missing accelerated kernels and how to get them, or "" if the binary has them or the platform has no kernels.
func Notice() string {
	if compiled != Generic || len(ofArchitecture(runtime.GOARCH)) == 1 {
		return ""
	}
	return fmt.Sprintf("this binary has no accelerated kernels (it was built by %s) and is several times as slow as one that has: "+
		"build that by make, or by GOTOOLCHAIN=%s GOEXPERIMENT=simd go install github.com/imgfeed/imgfeed/cmd/...@latest",
		runtime.Version(), Toolchain)
}
