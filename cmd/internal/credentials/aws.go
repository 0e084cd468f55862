package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"

	"odradek/processor/kafka"
)

// AWS signs logins at brokers of Amazon MSK, and requests to AWS Glue, with the credentials that the AWS SDK finds: in the
// environment, in a profile, by the web identity of a Kubernetes service account (IRSA, Pod Identity), or from the role of a
// container or an instance.
type AWS struct {
	region string // "": of the broker's name, or the SDK's

	mu     sync.Mutex
	loaded *aws.Config
	now    func() time.Time
}

// NewAWS asks for nothing yet.
func NewAWS(region string) *AWS { return &AWS{region: region, now: time.Now} }

// Login returns the login at brokers.
func (a *AWS) Login() *kafka.Login {
	return &kafka.Login{Mechanism: "AWS_MSK_IAM", Message: a.message,
		Settings: "kafka_aws_region, and that the IAM policy of the worker's role allows kafka-cluster:Connect"}
}

// hostRegion finds the region in the name of an MSK broker.
var hostRegion = regexp.MustCompile(`\.([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?$`)

// glueHost matches the endpoints of AWS Glue: public ones, of FIPS, of dual stack, and of a VPC.
var glueHost = regexp.MustCompile(`^(?:[^.]+\.)?glue(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d)\.` +
	`(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)$`)

// GlueRegion returns the region of an endpoint of AWS Glue; "" for other hosts.
func GlueRegion(host string) string {
	if m := glueHost.FindStringSubmatch(strings.ToLower(host)); m != nil {
		return m[1]
	}
	return ""
}

// Sign signs a request to a service of AWS in its headers, with the body that is sent.
func (a *AWS) Sign(ctx context.Context, req *http.Request, service string, body []byte) error {
	keys, err := a.keys(ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, req, hex.EncodeToString(sum[:]), service, a.region, a.now().UTC()); err != nil {
		return fmt.Errorf("credentials: AWS: sign: %w", err)
	}
	return nil
}

// keys returns the credentials that the SDK finds.
func (a *AWS) keys(ctx context.Context) (aws.Credentials, error) {
	cfg, err := a.load(ctx)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("credentials: AWS: %w", err)
	}
	keys, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		err = fmt.Errorf("credentials: AWS: no credentials in the environment, a profile, a service account or a role: %w", err)
	}
	return keys, err
}

// signatureTime is how long a signature is good.
const signatureTime = "300"

// message returns the signed request for kafka-cluster:Connect, in JSON.
func (a *AWS) message(ctx context.Context, host string) ([]byte, error) {
	cfg, err := a.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("credentials: AWS: %w", err)
	}
	region := a.region
	if m := hostRegion.FindStringSubmatch(host); region == "" && m != nil {
		region = m[1]
	}
	if region == "" {
		region = cfg.Region
	}
	if region == "" {
		return nil, errors.New("credentials: AWS: no region; set kafka_aws_region")
	}
	keys, err := a.keys(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"Action": {"kafka-cluster:Connect"}, "X-Amz-Expires": {signatureTime}}
	req := &http.Request{Method: http.MethodGet, Host: host, Header: http.Header{},
		URL: &url.URL{Scheme: "kafka", Host: host, Path: "/", RawQuery: query.Encode()}}
	empty := sha256.Sum256(nil)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, keys, req, hex.EncodeToString(empty[:]), "kafka-cluster", region, a.now().UTC())
	if err != nil {
		return nil, fmt.Errorf("credentials: AWS: sign: %w", err)
	}
	u, err := url.Parse(signed)
	if err != nil {
		return nil, fmt.Errorf("credentials: AWS: sign: %w", err)
	}
	fields := map[string]string{"version": "2020_10_22", "host": host, "user-agent": "odradek"}
	for name, values := range u.Query() {
		fields[strings.ToLower(name)] = values[0]
	}
	return json.Marshal(fields)
}

// load finds the source of credentials once; it renews them itself.
func (a *AWS) load(ctx context.Context) (*aws.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loaded == nil {
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, err
		}
		a.loaded = &cfg
	}
	return a.loaded, nil
}
