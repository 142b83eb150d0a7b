package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestSayNowAndThen opens shards, one a second.
func TestSayNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		opened := sayNowAndThen(func(shards, of int) { said = append(said, fmt.Sprint(shards, "/", of)) })
		for i := range 25 {
			time.Sleep(time.Second)
			opened(i+1, 25)
		}
		if got := fmt.Sprint(said); got != "[10/25 20/25]" {
			t.Error(got)
		}
	})
}
