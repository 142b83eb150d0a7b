package shard

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLabelsOfAPart asks for the labels of a set of which a partition is not here.
func TestLabelsOfAPart(t *testing.T) {
	samples := makeSamples(40)
	dir := writeSet(t, samples, testOptions(3))
	if err := os.RemoveAll(filepath.Join(dir, "rank-0001")); err != nil {
		t.Fatal(err)
	}
	s := openSet(t, dir)
	for first := range samples {
		labels := make([]int32, len(samples)-first)
		if err := s.Labels(first, labels); err != nil {
			t.Fatal(err)
		}
		for k, got := range labels {
			want := samples[first+k].Label
			if (first+k)%3 == 1 {
				want = -1
			}
			if got != want {
				t.Fatalf("sample %d, from %d on: label %d, want %d", first+k, first, got, want)
			}
		}
		entries := make([]Entry, len(labels))
		if err := s.Entries(first, entries); err != nil {
			t.Fatal(err)
		}
		for k, got := range entries {
			if want, err := s.Entry(first + k); got != want || (err == nil) != ((first+k)%3 != 1) {
				t.Fatalf("sample %d, from %d on: entry %+v, want %+v (%v)", first+k, first, got, want, err)
			}
		}
	}
	if err := s.Labels(30, make([]int32, 20)); err == nil {
		t.Error("labels beyond the last sample")
	}
}
