package credentials

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// alone hides the AWS credentials of the machine that runs the tests; nothing asks the network.
func alone(t *testing.T, variables map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION",
		"AWS_DEFAULT_REGION", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

// login returns the fields of the message at a time.
func login(t *testing.T, region, host, at string) (map[string]string, error) {
	t.Helper()
	a := NewAWS(region)
	a.now = func() time.Time {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	b, err := a.Login().Message(t.Context(), host)
	if err != nil {
		return nil, err
	}
	var got map[string]string
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	return got, nil
}

// TestAWSSignature: the message is the one that AWS's library for Python signs (testdata/msk.py).
func TestAWSSignature(t *testing.T) {
	b, err := os.ReadFile("testdata/msk.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Host, Region, Token, At string
			Want                    map[string]string
		}
	}
	if err := json.Unmarshal(b, &file); err != nil || len(file.Cases) < 4 {
		t.Fatalf("%d cases: %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		alone(t, map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
			"AWS_SESSION_TOKEN": c.Token})
		region := "" // the one in the broker's name
		if !strings.Contains(c.Host, "amazonaws") {
			region = c.Region
		}
		got, err := login(t, region, c.Host, c.At)
		if err != nil || !maps.Equal(got, c.Want) {
			t.Errorf("%s:\n got %v, %v\nwant %v", c.Host, got, err, c.Want)
		}
	}
}

// TestAWSSources: the credentials come from where the AWS SDK looks for them.
func TestAWSSources(t *testing.T) {
	const host, at = "b-1.x.y.c2.kafka.eu-west-1.amazonaws.com", "2026-01-31T08:00:00Z"
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	var asked []string
	aws := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked = append(asked, r.URL.Path+" "+r.Form.Get("Action")+" "+r.Form.Get("WebIdentityToken"))
		switch path := r.URL.Path; {
		case r.Form.Get("Action") == "AssumeRoleWithWebIdentity":
			fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>`+
				`<Credentials><AccessKeyId>AKWEB</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>`+
				`<Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, expires)
		case path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "imds")
		case path == "/latest/meta-data/iam/security-credentials/":
			fmt.Fprint(w, "plant-role")
		case path == "/latest/meta-data/iam/security-credentials/plant-role", path == "/container":
			fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":"AKROLE","SecretAccessKey":"s","Token":"t","Expiration":"%s"}`, expires)
		default:
			http.NotFound(w, r)
		}
	}))
	defer aws.Close()
	for name, c := range map[string]struct {
		variables map[string]string
		key       string
	}{
		"environment": {map[string]string{"AWS_ACCESS_KEY_ID": "AKENV", "AWS_SECRET_ACCESS_KEY": "s"}, "AKENV"},
		"profile": {map[string]string{"AWS_PROFILE": "plant", "AWS_SHARED_CREDENTIALS_FILE": file("credentials",
			"[plant]\naws_access_key_id=AKPROF\naws_secret_access_key=s\n")}, "AKPROF"},
		"web identity": {map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::1:role/plant", "AWS_REGION": "eu-west-1",
			"AWS_WEB_IDENTITY_TOKEN_FILE": file("jwt", "jwt-of-the-pod"), "AWS_ENDPOINT_URL_STS": aws.URL}, "AKWEB"},
		"container": {map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": aws.URL + "/container"}, "AKROLE"},
		"instance": {map[string]string{"AWS_EC2_METADATA_DISABLED": "false",
			"AWS_EC2_METADATA_SERVICE_ENDPOINT": aws.URL}, "AKROLE"},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, c.variables)
			got, err := login(t, "", host, at)
			if err != nil {
				t.Fatal(err)
			}
			if key, _, _ := strings.Cut(got["x-amz-credential"], "/"); key != c.key {
				t.Errorf("signed with %s, want %s", key, c.key)
			}
		})
	}
	if !strings.Contains(fmt.Sprint(asked), "AssumeRoleWithWebIdentity jwt-of-the-pod") {
		t.Errorf("requests: %q", asked)
	}
	t.Run("none", func(t *testing.T) {
		alone(t, nil)
		if _, err := login(t, "", host, at); err == nil || !strings.Contains(err.Error(), "no credentials") {
			t.Error(err)
		}
		if _, err := login(t, "", "broker.example.com", at); err == nil || !strings.Contains(err.Error(), "kafka_aws_region") {
			t.Error(err)
		}
	})
}

// TestGlueSignature: requests to AWS Glue are signed as AWS's library for Python signs them (testdata/glue.py).
func TestGlueSignature(t *testing.T) {
	b, err := os.ReadFile("testdata/glue.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Region, Token, Method, URL, Body string
			At                               time.Time
			Headers                          map[string]string
		}
	}
	if err := json.Unmarshal(b, &file); err != nil || len(file.Cases) != 3 {
		t.Fatalf("%d cases: %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		alone(t, map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
			"AWS_SESSION_TOKEN": c.Token})
		req, err := http.NewRequestWithContext(t.Context(), c.Method, c.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"X-Amz-Target", "Content-Type"} {
			req.Header.Set(name, c.Headers[name])
		}
		region := GlueRegion(req.URL.Hostname())
		a := NewAWS(region)
		a.now = func() time.Time { return c.At }
		if err := a.Sign(t.Context(), req, "glue", []byte(c.Body)); err != nil || region != c.Region {
			t.Fatalf("%s, region %s: %v", c.URL, region, err)
		}
		for name, want := range c.Headers {
			if got := req.Header.Get(name); got != want {
				t.Errorf("%s: %s:\n got %s\nwant %s", c.URL, name, got, want)
			}
		}
	}
}

func TestGlueRegion(t *testing.T) {
	for host, want := range map[string]string{
		"glue.eu-west-1.amazonaws.com": "eu-west-1", "glue-fips.us-gov-west-1.amazonaws.com": "us-gov-west-1",
		"glue.cn-north-1.amazonaws.com.cn": "cn-north-1", "glue.ap-southeast-2.api.aws": "ap-southeast-2",
		"vpce-0a1b-2c3d.glue.eu-west-1.vpce.amazonaws.com": "eu-west-1",
		"registry.eu-west-1.amazonaws.com":                 "", "glue.example.com": "", "glue.eu-west-1.amazonaws.com.example.com": "",
	} {
		if got := GlueRegion(host); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}
