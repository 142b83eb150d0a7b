package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	transfertypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// A bucket is a prefix of a bucket of S3, or of another storage with its protocol. Credentials, region and endpoint come from the sources
// that the AWS programs use. Without credentials requests are anonymous.
//
// mu guards the rest. It is held while credentials are read, so that they are read once for all requests that wait. It is not held during a
// request: each keeps the client that it began with, which never changes, and tells fault which one that was.
type bucket struct {
	name, prefix string

	mu        sync.Mutex
	client    *s3.Client // nil: the next request makes it, with credentials read anew
	region    string     // region that the bucket has named
	anonymous error      // why there are no credentials
}

// newBucket takes s3://bucket[/prefix]. It makes no request: the first one reads the credentials.
func newBucket(_ *Client, u *url.URL) (objects, error) {
	return &bucket{name: u.Host, prefix: strings.Trim(u.Path, "/")}, nil
}

// credentialsTimeout bounds the search for credentials, which ends at an address of EC2's.
const credentialsTimeout = 10 * time.Second

var errConfig = errors.New("the credentials can't be read")

// open returns the client. It makes one if there is none: as the user's AWS configuration says, and anonymous if that has no credentials.
// Requests that come meanwhile wait for that.
func (b *bucket) open(ctx context.Context) (*s3.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client != nil {
		return b.client, nil
	}
	c, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(prepareTransport)),
		config.WithLogger(logging.Nop{}), config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errConfig, err)
	}
	switch {
	case b.region != "":
		c.Region = b.region
	case c.Region == "":
		c.Region = "us-east-1"
	}
	if t, is := c.HTTPClient.(*awshttp.BuildableClient); is { // its own client follows redirects without an end
		c.HTTPClient = &http.Client{Transport: t.GetTransport(), CheckRedirect: checkBucketRedirect}
	}
	looking, cancel := context.WithTimeout(ctx, credentialsTimeout)
	defer cancel()
	b.anonymous = nil
	if _, err := c.Credentials.Retrieve(looking); err != nil {
		c.Credentials, b.anonymous = aws.AnonymousCredentials{}, err
	}
	b.client = s3.NewFromConfig(c, func(o *s3.Options) {
		o.UsePathStyle = o.BaseEndpoint != nil // other storages understand it, and AWS for names with dots
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.DisableLogOutputChecksumValidationSkipped = true
	})
	return b.client, nil
}

// checkBucketRedirect follows few redirects, and only those that the protocol has.
func checkBucketRedirect(r *http.Request, before []*http.Request) error {
	switch code := r.Response.StatusCode; {
	case code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect:
		return http.ErrUseLastResponse
	case len(before) > movesMax:
		return fmt.Errorf("%w: there were %d before", errRedirect, movesMax)
	}
	return checkRedirect(r, before)
}

func (b *bucket) key(name string) string { return path.Join(b.prefix, name) }

// origin implements objects. The endpoint belongs to it: another storage may have a bucket of the same name.
func (b *bucket) origin(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	endpoint := ""
	if b.client != nil {
		endpoint = aws.ToString(b.client.Options().BaseEndpoint)
	}
	return endpoint + " s3://" + path.Join(b.name, b.key(name))
}

// askBucket makes a request to the bucket. Its error is a [RemoteError], or says that the credentials can't be read.
func askBucket[I, O any](
	ctx context.Context, b *bucket, request func(*s3.Client, context.Context, *I, ...func(*s3.Options)) (*O, error), input *I,
) (*O, error) {
	client, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := request(client, ctx, input)
	return answer, b.fault(client, err)
}

// get implements objects.
func (b *bucket) get(ctx context.Context, name string, offset, length int64, version string) (*object, error) {
	input := &s3.GetObjectInput{Bucket: &b.name, Key: aws.String(b.key(name))}
	if length >= 0 {
		input.Range = aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	}
	if version != "" {
		input.IfMatch = &version
	}
	answer, err := askBucket(ctx, b, (*s3.Client).GetObject, input)
	if err != nil {
		return nil, err
	}
	o := &object{
		body: answer.Body, size: *cmp.Or(answer.ContentLength, aws.Int64(-1)), header: aws.ToString(answer.ContentRange),
		version: aws.ToString(answer.ETag), encoding: aws.ToString(answer.ContentEncoding),
	}
	o.request, _ = awsmiddleware.GetRequestIDMetadata(answer.ResultMetadata)
	raw, is := awsmiddleware.GetRawResponse(answer.ResultMetadata).(*smithyhttp.Response)
	o.partial = is && raw.StatusCode == http.StatusPartialContent
	return o, nil
}

// list implements lister.
func (b *bucket) list(ctx context.Context, folder string, received func(int)) (files []Listed, err error) {
	client, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimPrefix(b.key(folder)+"/", "/") // "" for the whole bucket
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix, Delimiter: aws.String("/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, b.fault(client, err)
		}
		received(stallBytes)
		for _, p := range page.CommonPrefixes {
			files = append(files, Listed{Name: strings.TrimPrefix(aws.ToString(p.Prefix), prefix)})
		}
		for _, o := range page.Contents {
			files = append(files, Listed{strings.TrimPrefix(aws.ToString(o.Key), prefix),
				Object{aws.ToInt64(o.Size), aws.ToString(o.ETag)}})
		}
	}
	return files, nil
}

// retryableCodes are codes of errors that may pass, though their status says otherwise, and refusedCodes those of credentials that are not
// valid, until they are renewed.
var (
	retryableCodes = map[string]bool{"RequestTimeTooSkewed": true, "RequestExpired": true, "RequestTimeout": true}
	refusedCodes   = map[string]bool{"ExpiredToken": true, "ExpiredTokenException": true, "TokenRefreshRequired": true,
		"InvalidAccessKeyId": true, "InvalidToken": true, "InvalidClientTokenId": true, "InvalidIdentityToken": true,
		"UnrecognizedClientException": true}
)

// fault makes a [RemoteError] of an error of the SDK, without its URL. If the storage refused the credentials of the client that was used,
// or named another region, the next request makes a new one. Of many requests that fail together, the first alone discards the client: the
// others find another one by then, which has new credentials.
func (b *bucket) fault(used *s3.Client, err error) error {
	if err == nil {
		return nil
	}
	region := ""
	failed := &RemoteError{Err: withoutURL(err), refused: strings.Contains(err.Error(), "get identity: get credentials:")}
	if answer, ok := errors.AsType[*awshttp.ResponseError](err); ok && answer.HTTPStatusCode() > 0 {
		failed.Status, failed.Request = answer.HTTPStatusCode(), answer.ServiceRequestID()
		failed.Err = fmt.Errorf("status %d %s", failed.Status, http.StatusText(failed.Status))
		region = answer.Response.Header.Get("X-Amz-Bucket-Region")
	}
	if code, ok := errors.AsType[smithy.APIError](err); ok {
		failed.Err = fmt.Errorf("%s: %s", code.ErrorCode(), code.ErrorMessage())
		failed.refused = failed.refused || refusedCodes[code.ErrorCode()]
		if retryableCodes[code.ErrorCode()] {
			failed.Status = http.StatusInternalServerError
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	status := failed.Status
	switch {
	case failed.refused:
		if b.client == used {
			b.client = nil
		}
	case region != "" && (status == http.StatusMovedPermanently || status == http.StatusBadRequest):
		if failed.moved = true; b.region != region {
			b.region, b.client = region, nil
		}
		failed.Err = fmt.Errorf("%w (the store redirects requests to region %s)", failed.Err, region)
	case b.anonymous != nil && failed.Status == http.StatusForbidden:
		failed.Err = fmt.Errorf("%w (there are no credentials, so the request was anonymous)", failed.Err)
		if text := b.anonymous.Error(); !strings.Contains(text, "no EC2 IMDS role found") {
			failed.Err = fmt.Errorf("%w: %s", failed.Err, text)
		}
	}
	return failed
}

const (
	// partBytes is the size of an upload's parts. An upload has at most 10,000.
	partBytes = 16 << 20
	// partsInFlight of an upload fill 1 Gbit/s at 100 ms.
	partsInFlight = 4
	// putTries is how often a part is sent before the upload fails; up to 20 seconds lie between.
	putTries = 20
	// abortTime is for the requests that end an upload, and beginTime for the answer that names a cancelled one.
	abortTime, beginTime = 30 * time.Second, 5 * time.Second
	// sumKey is the name of the metadata of an object that hold its SHA-256.
	sumKey = "imgshard-sha256"
)

// put implements uploader. Each part has a CRC-32C that the storage compares. An upload that fails or is cancelled is aborted: its parts
// would stay in the bucket.
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
	_, err = transfermanager.New(uploads{repeating}, func(o *transfermanager.Options) {
		o.PartSizeBytes, o.MultipartUploadThreshold, o.Concurrency, o.FailTimeout = partBytes, partBytes, partsInFlight, abortTime
	}).UploadObject(ctx, input)
	return b.fault(client, err)
}

// uploads is a client that waits for the name of an upload even if it is cancelled. Nobody can abort an upload without its name.
type uploads struct{ *s3.Client }

func (u uploads) CreateMultipartUpload(
	ctx context.Context, input *s3.CreateMultipartUploadInput, options ...func(*s3.Options),
) (*s3.CreateMultipartUploadOutput, error) {
	begin, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(beginTime, cancel) })()
	return u.Client.CreateMultipartUpload(begin, input, options...)
}

// sum implements uploader. An object that another program has put there has no sum.
func (b *bucket) sum(ctx context.Context, name string) (int64, string, error) {
	answer, err := askBucket(ctx, b, (*s3.Client).HeadObject, &s3.HeadObjectInput{Bucket: &b.name, Key: aws.String(b.key(name))})
	if err != nil {
		return 0, "", err
	}
	return aws.ToInt64(answer.ContentLength), answer.Metadata[sumKey], nil
}

func (b *bucket) remove(ctx context.Context, name string) error {
	_, err := askBucket(ctx, b, (*s3.Client).DeleteObject, &s3.DeleteObjectInput{Bucket: &b.name, Key: aws.String(b.key(name))})
	return err
}
