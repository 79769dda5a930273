// Package bucket keeps workflow versions in an object store (WORKFLOW_STORE=blob), for
// step 5 of a slot's life. A version is the object {workflow_id}/{version}.json, or
// owners/{user_id}/{workflow_id}/{version}.json if it belongs to one owner. The
// registrar or another program writes it once; it is never changed.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/s3blob"   // s3://
	"gocloud.dev/gcerrors"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/workflow"
)

// Store is one bucket, or one folder of it.
type Store struct {
	bucket  *blob.Bucket
	address string // without its query
}

// CheckURL refuses a URL that does not name a bucket.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("is no URL")
	case u.User != nil:
		return errors.New("holds a user name or password; the keys of an object store come from its own environment, such as AWS_ACCESS_KEY_ID")
	case u.Scheme == "s3" && u.Host != "" && strings.Trim(u.Path, "/") == "":
		return nil
	case u.Scheme == "s3":
		return errors.New("is s3://BUCKET; a folder of it is s3://BUCKET?prefix=FOLDER/")
	case u.Scheme == "file" && u.Host == "" && u.Path != "":
		return nil
	case u.Scheme == "file":
		return errors.New("is file:///ABSOLUTE/FOLDER, with three slashes")
	}
	return errors.New("begins with neither s3:// nor file://; a store that speaks S3 takes s3://BUCKET?endpoint=https://HOST&use_path_style=true")
}

// Open opens the bucket at an address; it makes no call yet.
func Open(ctx context.Context, address string) (*Store, error) {
	if err := CheckURL(address); err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("is no URL")
	}
	if q := u.Query(); u.Scheme == "file" {
		for name, value := range map[string]string{
			"metadata":   "skip", // one file for each version and no other
			"no_tmp_dir": "true", // files are renamed into place, so they must be on the same disk
			// Other users of the machine must not read DAGs.
			"dir_file_mode": "0700",
		} {
			if !q.Has(name) {
				q.Set(name, value)
			}
		}
		u.RawQuery = q.Encode()
	}
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	u.RawQuery = ""
	return &Store{bucket: b, address: u.String()}, nil
}

// Close frees what Open took.
func (s *Store) Close() error { return s.bucket.Close() }

// LoadDAG reads a version. It returns schedule.ErrNotFound only if the bucket itself
// exists: a wrong bucket name must not fail every run for good.
func (s *Store) LoadDAG(ctx context.Context, userID, workflowID string, version int32) ([]byte, error) {
	key, err := workflow.PathOf(userID, workflowID, version)
	if err != nil {
		return nil, err
	}
	r, err := s.bucket.NewReader(ctx, key, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, s.missing(ctx, key)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s in the bucket: %w", key, err)
	}
	defer r.Close()
	dag, err := io.ReadAll(io.LimitReader(r, schedule.MaxDAGBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s from the bucket: %w", key, err)
	}
	return workflow.Checked(key, dag)
}

// HoldsDAG reports whether the object of a version exists.
func (s *Store) HoldsDAG(ctx context.Context, userID, workflowID string, version int32) (bool, error) {
	key, err := workflow.PathOf(userID, workflowID, version)
	if err != nil {
		return false, nil
	}
	there, err := s.bucket.Exists(ctx, key)
	if err != nil {
		return false, fmt.Errorf("look for %s in the bucket: %w", key, err)
	}
	if !there {
		err = s.missing(ctx, key)
	}
	if errors.Is(err, schedule.ErrNotFound) {
		err = nil
	}
	return there, err
}

func (s *Store) missing(ctx context.Context, key string) error {
	there, err := s.bucket.IsAccessible(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("look for the bucket %s: %w", s.address, err)
	case !there:
		return fmt.Errorf("there is no bucket %s", s.address)
	}
	return schedule.Explain(schedule.ErrNotFound, "there is no %s in the bucket", key)
}

// CheckDAG returns schedule.ErrExists if another DAG is stored under this version.
func (s *Store) CheckDAG(ctx context.Context, w *schedule.WorkflowVersion) error {
	_, err := s.holds(ctx, w)
	return err
}

// holds reports whether exactly this DAG is stored.
func (s *Store) holds(ctx context.Context, w *schedule.WorkflowVersion) (bool, error) {
	key, err := workflow.PathOf(w.UserID, w.WorkflowID, w.Version)
	if err != nil {
		return false, schedule.Invalid("workflow_id", w.WorkflowID, "cannot name a folder of the bucket", "name the workflow otherwise")
	}
	stored, err := s.LoadDAG(ctx, w.UserID, w.WorkflowID, w.Version)
	if errors.Is(err, schedule.ErrNotFound) {
		return false, nil
	}
	var hash [32]byte
	if err == nil {
		hash, err = schedule.CanonicalHash(stored)
	}
	if _, damaged := errors.AsType[*schedule.InvalidError](err); !damaged && err != nil {
		return false, err
	}
	if err != nil || hash != w.Hash {
		return false, schedule.Explain(schedule.ErrExists,
			"the bucket holds another DAG as %s; give the new one a new version", key)
	}
	return true, nil
}

// PutDAG writes a version once. A repeat writes nothing; another DAG of the version is
// schedule.ErrExists, also with concurrent writes.
func (s *Store) PutDAG(ctx context.Context, w *schedule.WorkflowVersion) error {
	if there, err := s.holds(ctx, w); there || err != nil {
		return err
	}
	key, err := workflow.PathOf(w.UserID, w.WorkflowID, w.Version)
	if err != nil {
		return err
	}
	err = s.bucket.WriteAll(ctx, key, w.DAG, &blob.WriterOptions{ContentType: "application/json", IfNotExist: true, BeforeWrite: closeToOthers})
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		_, err = s.holds(ctx, w) // another writer was faster
	}
	if err != nil {
		return fmt.Errorf("write %s to the bucket: %w", key, err)
	}
	return nil
}

// closeToOthers makes a file of file:// readable by its owner only, before anything is
// written; other stores have no files.
func closeToOthers(as func(any) bool) error {
	var file *os.File
	if !as(&file) {
		return nil
	}
	return file.Chmod(0o600)
}

// mostVersions caps the versions of a workflow that Latest reads.
const mostVersions = 100_000

// Latest is the newest version of a workflow that is stored for exactly this
// owner; schedule.ErrNotFound.
func (s *Store) Latest(ctx context.Context, userID, workflowID string) (newest int32, err error) {
	first, err := workflow.PathOf(userID, workflowID, 1)
	if err != nil {
		return 0, err
	}
	prefix := strings.TrimSuffix(first, "1.json")
	objects := s.bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"})
	for range mostVersions {
		object, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("list %s in the bucket: %w", prefix, err)
		}
		name, isJSON := strings.CutSuffix(strings.TrimPrefix(object.Key, prefix), ".json")
		if version, err := strconv.ParseInt(name, 10, 32); isJSON && err == nil {
			newest = max(newest, int32(version))
		}
	}
	if newest < 1 {
		return 0, schedule.Explain(schedule.ErrNotFound, "there is no version of %s in the bucket", schedule.Quote(workflowID))
	}
	return newest, nil
}
