package storage

import (
	"context"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	transfertypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	// partBytes is the size of an upload's parts. An upload has at most 10,000.
	partBytes = 16 << 20
	// partsInFlight of an upload fill 1 Gbit/s at 100 ms.
	partsInFlight = 4
	// putTries is how often a part is sent before the upload fails; up to 20 seconds lie between.
	putTries = 20
	// sumKey is the name of the metadata of an object that hold its SHA-256.
	sumKey = "imgshard-sha256"
)

// put implements uploader. Each part has a CRC-32C that the storage compares.
func (b *bucket) put(ctx context.Context, name, sum string, body io.Reader) error {
	client, err := b.open(ctx)
	if err != nil {
		return err
	}
	repeating := s3.New(client.Options(), func(o *s3.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = putTries, 2*pauseMax
			o.RateLimiter = ratelimit.None // else a client gives up after a hundred repetitions of all its uploads
		})
	})
	input := &transfermanager.UploadObjectInput{
		Bucket: &b.name, Key: aws.String(b.key(name)), Body: body, ChecksumAlgorithm: transfertypes.ChecksumAlgorithmCrc32c,
	}
	if sum != "" {
		input.Metadata = map[string]string{sumKey: sum}
	}
	_, err = transfermanager.New(repeating, func(o *transfermanager.Options) {
		o.PartSizeBytes, o.MultipartUploadThreshold, o.Concurrency, o.FailTimeout = partBytes, partBytes, partsInFlight, 30*time.Second
	}).UploadObject(ctx, input)
	if err != nil {
		return b.fault(err)
	}
	return nil
}

func (b *bucket) sum(ctx context.Context, name string) (int64, string, error) {
	client, err := b.open(ctx)
	if err != nil {
		return 0, "", err
	}
	answer, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: aws.String(b.key(name))})
	if err != nil {
		return 0, "", b.fault(err)
	}
	return aws.ToInt64(answer.ContentLength), answer.Metadata[sumKey], nil
}

func (b *bucket) remove(ctx context.Context, name string) error {
	client, err := b.open(ctx)
	if err != nil {
		return err
	}
	if _, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: aws.String(b.key(name))}); err != nil {
		return b.fault(err)
	}
	return nil
}
