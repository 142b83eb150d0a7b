package ring

import (
	"errors"
	"math"
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// batchArrays returns the arrays of a session with images of one size.
func batchArrays(height, width, channels int, withParams bool) []Array {
	arrays := []Array{
		{Kind: Images, Dtype: "uint8", Shape: []int{height, width, channels}}, {Kind: Labels, Dtype: "int64"}, {Kind: Indices, Dtype: "int64"},
	}
	if withParams {
		arrays = append(arrays, Array{Kind: Params, Dtype: "int32", Shape: []int{5}})
	}
	return arrays
}

func TestLayoutExample(t *testing.T) {
	got := testenv.Must(NewLayout(256, batchArrays(224, 224, 3, true)...))(t)
	want := []Array{
		{Kind: "images", Dtype: "uint8", Shape: []int{224, 224, 3}, Stride: 150528},
		{Kind: "labels", Dtype: "int64", Offset: 38535168, Stride: 8},
		{Kind: "indices", Dtype: "int64", Offset: 38537216, Stride: 8},
		{Kind: "params", Dtype: "int32", Shape: []int{5}, Offset: 38539264, Stride: 20},
	}
	testenv.Check(t, os.Getpagesize() != 4096 || reflect.DeepEqual(got.Arrays, want) && got.Size == 38547456, "got %+v, want %+v", got, want)
}

func TestLayoutKeepsArraysApart(t *testing.T) {
	for _, withParams := range []bool{false, true} {
		for batch := 1; batch < 70; batch++ {
			l := testenv.Must(NewLayout(batch, batchArrays(3, 5, 3, withParams)...))(t)
			slot, sum := make([]byte, l.Size), 0
			for i, part := range l.AppendParts(nil, slot, batch) {
				for j := range part {
					testenv.Require(t, part[j] == 0, "batch %d: array %d overlaps another", batch, i)
					part[j] = byte(i + 1)
				}
				sum += len(part)
				testenv.Check(t, l.Arrays[i].Offset%64 == 0, "batch %d: not aligned: %+v", batch, l)
			}
			testenv.Check(t, int64(sum) == int64(batch)*l.SampleBytes && l.Size%int64(os.Getpagesize()) == 0,
				"batch %d: SampleBytes %d, the arrays have %d, the slot %d", batch, int64(batch)*l.SampleBytes, sum, l.Size)
		}
	}
}

func TestLayoutRefusesImpossibleSizes(t *testing.T) {
	var size *RequestError
	for _, s := range [][4]int{{0, 1, 1, 1}, {-1, 1, 1, 1}, {1, 0, 1, 3}, {1, 1, -5, 3}, {math.MaxInt, 224, 224, 3}, {1, math.MaxInt, math.MaxInt, 3}, {1 << 40, 1 << 20, 1 << 20, 3}} {
		l, err := NewLayout(s[0], batchArrays(s[1], s[2], s[3], true)...)
		testenv.Check(t, errors.As(err, &size), "%v: %+v, %v; want a SizeError", s, l, err)
	}
}

func page() int64 { return int64(os.Getpagesize()) }

func TestFileIsSealedAndShared(t *testing.T) {
	r := testenv.Opened(New(2, page(), true))(t)
	fd := int(r.File().Fd())
	for _, size := range []int64{0, page(), 4 * page()} {
		testenv.Check(t, unix.Ftruncate(fd, size) != nil, "a client could resize the ring to %d bytes", size)
	}
	testenv.Fails(unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE))(t, nil, "a client could add a seal")
	copy(r.Bytes(0), "pixels")
	client := testenv.Must(unix.Mmap(fd, 0, int(r.Size()), unix.PROT_READ, unix.MAP_SHARED))(t)
	defer unix.Munmap(client)
	testenv.Equal(t, string(client[:6]), "pixels", "the client sees")
	// A client that punches a hole into its memory loses its own pixels; the server writes on.
	testenv.OK(t, unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, r.Size()))
	copy(r.Bytes(0), "again!")
	testenv.Equal(t, string(client[:6]), "again!", "after the hole the client sees")
}

// TestARingIsMappedWhole writes to every page of a new ring: page faults would be the workers' time.
func TestARingIsMappedWhole(t *testing.T) {
	const slots, size = 4, 4 << 20
	r := testenv.Opened(New(slots, size, true))(t)
	var before, after unix.Rusage
	testenv.OK(t, unix.Getrusage(unix.RUSAGE_SELF, &before))
	for slot := range slots {
		for memory := r.Bytes(slot); len(memory) > 0; memory = memory[os.Getpagesize():] {
			memory[0] = 1
		}
	}
	testenv.OK(t, unix.Getrusage(unix.RUSAGE_SELF, &after))
	pages := slots * size / os.Getpagesize()
	faults := int(after.Minflt - before.Minflt)
	testenv.Check(t, faults <= pages/8, "%d page faults for %d pages", faults, pages)
}
