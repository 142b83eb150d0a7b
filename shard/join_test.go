package shard

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// TestJoin compares joined sets with their parts, by every method that takes an index.
func TestJoin(t *testing.T) {
	options := testOptions(2)
	options.Classes = []string{"n01484850", "n01440764", "n02000000"}
	samples := [][]Sample{makeSamples(23), makeSamples(1), makeSamples(30)}
	dirs := []string{writeSet(t, samples[0], testOptions(3)), writeSet(t, samples[1], testOptions(1)), writeSet(t, samples[2], options)}
	for _, apart := range []bool{false, true} {
		classes, labels := []string{"n01440764", "n01443537", "n01484850", "n02000000"}, []int32{2, 0, 3}
		if apart {
			classes, labels = slices.Concat(testClasses, testClasses, options.Classes), []int32{6, 7, 8}
		}
		found := testenv.Must(FindJoined(storage.Default, dirs))(t)
		found.Apart = apart
		set := testenv.Must(found.Open("train", nil))(t)
		defer set.Close()
		if set.Len() != 54 || !slices.Equal(set.Parts(), []int{23, 1, 30}) || !slices.Equal(set.Manifest().Classes, classes) || set.Partitions() != 1 || len(set.Missing()) > 0 {
			t.Fatalf("%d samples of %v, classes %v", set.Len(), set.Parts(), set.Manifest().Classes)
		}
		testenv.OK(t, set.Map())
		i := 0
		for part, of := range samples {
			for _, want := range of {
				label := want.Label
				switch {
				case part == 2:
					label = labels[label]
				case part == 1 && apart:
					label += 3
				}
				read, _, err := set.Read(i, nil)
				view, viewErr := set.View(i)
				got, labelErr := set.Label(i)
				key, keyErr := set.Key(i)
				testenv.OK(t, errors.Join(err, viewErr, labelErr, keyErr))
				if read.Label != label || view.Label != label || got != label || key != want.Key {
					t.Fatalf("sample %d (%s) has labels %d, %d, %d, want %d", i, key, read.Label, view.Label, got, label)
				}
				if !bytes.Equal(read.Image, want.Image) || !bytes.Equal(view.Aux, want.Aux) {
					t.Fatalf("sample %d has another image", i)
				}
				if at, err := set.Find(key); err != nil || at > i {
					t.Fatalf("%s is found at %d: %v", key, at, err)
				}
				i++
			}
		}
		if _, err := set.Label(54); !errors.Is(err, ErrNotFound) {
			t.Errorf("sample 54: %v", err)
		}
		if _, err := set.Find("none"); !errors.Is(err, ErrNotFound) {
			t.Errorf("no key: %v", err)
		}
	}
}

// TestJoinOfJoined gives a joined set and a further one the labels of all.
func TestJoinOfJoined(t *testing.T) {
	options, samples := testOptions(2), makeSamples(8)
	options.Classes = []string{"n01484850", "n01440764", "n02000000"}
	open := func(o SetOptions) *Set {
		set := testenv.Must(OpenSet(writeSet(t, samples, o)))(t)
		return set
	}
	first := testenv.Must(Join([]*Set{open(options), open(testOptions(1))}, false))(t)
	set := testenv.Must(Join([]*Set{open(testOptions(3)), first}, false))(t)
	defer set.Close()
	if set.Len() != 24 || !slices.Equal(set.Parts(), []int{8, 16}) {
		t.Errorf("%d samples of %v", set.Len(), set.Parts())
	}
	classes := [][]string{testClasses, options.Classes, testClasses}
	for i := range set.Len() {
		label, err := set.Label(i)
		if want := classes[i/8][samples[i%8].Label]; err != nil || set.Manifest().Classes[label] != want {
			t.Errorf("sample %d is of %s, want %s: %v", i, set.Manifest().Classes[label], want, err)
		}
	}
}

// TestJoinRefused names what does not go together.
func TestJoinRefused(t *testing.T) {
	dir := writeSet(t, makeSamples(5), testOptions(1))
	other := testOptions(1)
	other.Encoding.Name = "other"
	fields := testOptions(1)
	fields.Fields = Fields{{Name: "score", Type: Float32}}
	val := testOptions(1)
	val.Split = "val"
	with := makeSamples(1)
	with[0].Fields = make([]byte, 4)
	for want, second := range map[string]string{
		"stored as":                 writeSet(t, makeSamples(5), other),
		"fields are [score":         writeSet(t, with, fields),
		"only of train, val":        writeSet(t, makeSamples(5), val),
		"no such file or directory": dir + "-none",
	} {
		found, err := FindJoined(storage.Default, []string{dir, second})
		if err == nil {
			_, err = found.Open("train", nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
