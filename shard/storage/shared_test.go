package storage

import (
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestCredentialsAreReadOnceForAll has two requests of one client refused. The second failure comes once the credentials were read anew: it
// leaves the new client alone.
func TestCredentialsAreReadOnceForAll(t *testing.T) {
	old, renewed := &s3.Client{}, &s3.Client{}
	b := &bucket{client: old}
	expired := &smithy.GenericAPIError{Code: "ExpiredToken"}
	b.fault(old, expired)
	testenv.Check(t, b.client == nil, "the client with expired credentials is used again")
	b.client = renewed
	b.fault(old, expired)
	testenv.Check(t, b.client == renewed, "renewed credentials are read once more")
}

// TestOpeningEndsForGood has answers come while an opening ends: its time stays stopped.
func TestOpeningEndsForGood(t *testing.T) {
	c := NewClient()
	c.Timeout = time.Hour
	for range 200 {
		o := c.Opening()
		o.Steps()
		var answers sync.WaitGroup
		begun := make(chan struct{})
		answers.Go(func() {
			close(begun)
			for !o.over.Load() {
				o.answered()
			}
		})
		<-begun
		o.End()
		answers.Wait()
		testenv.Require(t, !o.timer.Stop(), "an answer has begun the time of an opening that was over")
	}
}
