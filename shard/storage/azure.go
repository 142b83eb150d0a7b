package storage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/log"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// An azureFolder is a folder of a container of Azure Blob Storage. Keys are named as for Azure's command line; where there are none, requests are anonymous. Azure's
// package for identities would add 4 MB to imgfeed and 6 to imgshard.
type azureFolder struct {
	account, container, path string

	mu     sync.Mutex
	client *container.Client
}

// AZURE_SDK_GO_LOGGING would show the signatures of requests that fail.
func init() { log.SetListener(nil) }

// newAzureFolder takes az://account/container[/folder].
func newAzureFolder(u *url.URL) (objects, error) {
	name, folder, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if name == "" {
		return nil, fmt.Errorf("%s: want az://account/container, with a folder after it if there is one", u)
	}
	return &azureFolder{account: u.Host, container: name, path: folder}, nil
}

func (a *azureFolder) open(ctx context.Context) (_ *container.Client, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != nil {
		return a.client, nil
	}
	options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: webClient, Retry: policy.RetryOptions{MaxRetries: -1}}}
	place := (&url.URL{Scheme: "https", Host: a.account + ".blob.core.windows.net", Path: a.container}).String()
	text, key, sas := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), os.Getenv("AZURE_STORAGE_KEY"), os.Getenv("AZURE_STORAGE_SAS_TOKEN")
	_, account, named := strings.Cut(";"+text, ";AccountName=")
	account, _, _ = strings.Cut(account, ";")
	switch {
	case named && account != a.account:
		return nil, fmt.Errorf("%w: AZURE_STORAGE_CONNECTION_STRING is of another account than %s", errConfig, a.account)
	case text != "":
		a.client, err = container.NewClientFromConnectionString(text, a.container, options)
	case key != "":
		var shared *blob.SharedKeyCredential
		if shared, err = blob.NewSharedKeyCredential(a.account, key); err == nil {
			a.client, err = container.NewClientWithSharedKeyCredential(place, shared, options)
		}
	case sas != "":
		a.client, err = container.NewClientWithNoCredential(place+"?"+strings.TrimPrefix(sas, "?"), options)
	default:
		a.client, err = container.NewClientWithNoCredential(place, options)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_KEY does not have its form", errConfig) // nor is it shown
	}
	return a.client, nil
}

func (a *azureFolder) get(ctx context.Context, name string, offset, length int64, version string) (*object, error) {
	client, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	options := &blob.DownloadStreamOptions{}
	if length >= 0 {
		options.Range = blob.HTTPRange{Offset: offset, Count: length}
	}
	if version != "" {
		tag := azcore.ETag(version)
		options.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &tag}}
	}
	answer, err := client.NewBlobClient(path.Join(a.path, name)).DownloadStream(ctx, options)
	if err != nil {
		return nil, azureFault(err)
	}
	o := &object{body: answer.Body, size: -1}
	if answer.ETag != nil {
		o.version = string(*answer.ETag)
	}
	if answer.RequestID != nil {
		o.request = *answer.RequestID
	}
	switch {
	case answer.ContentRange != nil:
		o.partial, o.header = true, *answer.ContentRange
	case answer.ContentLength != nil:
		o.size = *answer.ContentLength
	}
	return o, nil
}

// list implements lister.
func (a *azureFolder) list(ctx context.Context, folder string, came func(int)) (names []string, err error) {
	client, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	prefix := path.Join(a.path, folder)
	if prefix != "" {
		prefix += "/"
	}
	pages := client.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{Prefix: &prefix})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, azureFault(err)
		}
		came(stallBytes)
		for _, p := range page.Segment.BlobPrefixes {
			names = append(names, strings.TrimPrefix(*p.Name, prefix))
		}
		for _, b := range page.Segment.BlobItems {
			if name := strings.TrimPrefix(*b.Name, prefix); name != "" {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// azureFault makes a [RemoteError] of an error of the SDK, without its URL.
func azureFault(err error) error {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		return withoutURL(err)
	}
	failed := &RemoteError{Status: answer.StatusCode, Err: fmt.Errorf("status %d %s %s", answer.StatusCode, http.StatusText(answer.StatusCode), answer.ErrorCode)}
	if answer.RawResponse != nil {
		failed.Request = answer.RawResponse.Header.Get("x-ms-request-id")
	}
	return failed
}
