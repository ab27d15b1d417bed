// Command place asks Berth where a pod goes, and prints the node, or why there is none.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	berth "berth.dev/clients/place/generated/berth/v1"
	core "berth.dev/clients/place/generated/k8s.io/api/core/v1"
	resource "berth.dev/clients/place/generated/k8s.io/apimachinery/pkg/api/resource"
	meta "berth.dev/clients/place/generated/k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	timeout  = 5 * time.Second
	maxTries = 5
)

func main() {
	server := flag.String("server", "127.0.0.1:7420", "HOST:PORT")
	cpu := flag.String("cpu", "100m", "a quantity, as in a pod's requests")
	assume := flag.Bool("assume", false, "take the room")
	caFile := flag.String("ca-file", "", "who vouches for the server, in PEM; with it TLS is used")
	tokenFile := flag.String("token-file", "", "a bearer token")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: place [flags] NAME")
		os.Exit(2)
	}
	placed, err := run(*server, *caFile, *tokenFile, placeRequest(flag.Arg(0), *cpu, *assume))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !placed {
		os.Exit(2)
	}
}

func run(server, caFile, tokenFile string, request *berth.PlaceRequest) (bool, error) {
	trust := insecure.NewCredentials()
	if caFile != "" {
		var err error
		if trust, err = credentials.NewClientTLSFromFile(caFile, ""); err != nil {
			return false, err
		}
	}
	connection, err := grpc.NewClient(server, grpc.WithTransportCredentials(trust))
	if err != nil {
		return false, err
	}
	defer connection.Close()
	ctx, err := withToken(context.Background(), tokenFile)
	if err != nil {
		return false, err
	}
	cluster, err := call(ctx, berth.NewClusterServiceClient(connection).GetCluster, &berth.GetClusterRequest{})
	if err != nil {
		return false, err
	}
	fmt.Printf("%d nodes, generation %d\n", cluster.GetNNodes(), cluster.GetGeneration())
	// The same id on every try: what is assumed is assumed once.
	ctx = metadata.AppendToOutgoingContext(ctx, "berth-request-id", newRequestID())
	answer, err := call(ctx, berth.NewPlacementServiceClient(connection).Place, request)
	if err != nil {
		return false, err
	}
	return tell(answer.GetDecision()), nil
}

func placeRequest(name, cpu string, assume bool) *berth.PlaceRequest {
	requests := map[string]*resource.Quantity{"cpu": {String_: &cpu}}
	request := &berth.PlaceRequest{Admit: true, Pod: &core.Pod{
		Metadata: &meta.ObjectMeta{Name: name, Namespace: "default", Uid: "uid-of-" + name},
		Spec: &core.PodSpec{Containers: []*core.Container{{
			Name:      "main",
			Resources: &core.ResourceRequirements{Requests: requests},
		}}},
	}}
	if assume {
		request.Mode = berth.PlaceMode_PLACE_MODE_ASSUME
	}
	return request
}

func withToken(ctx context.Context, tokenFile string) (context.Context, error) {
	if tokenFile == "" {
		return ctx, nil
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, err
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))), nil
}

func newRequestID() string {
	var id [16]byte
	// Never fails on the systems that Go runs on.
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// call calls until there is an answer, as patiently as an overloaded server asks.
func call[Request, Response any](
	ctx context.Context,
	method func(context.Context, Request, ...grpc.CallOption) (Response, error),
	request Request,
) (Response, error) {
	for nTries := 1; ; nTries++ {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		answer, err := method(attempt, request)
		cancel()
		code := status.Code(err)
		mayHelp := code == codes.ResourceExhausted || code == codes.Unavailable
		if !mayHelp || nTries == maxTries {
			return answer, err
		}
		time.Sleep(retryDelay(err, 100*time.Millisecond<<nTries))
	}
}

// retryDelay is what the server asks for in google.rpc.RetryInfo.
func retryDelay(err error, otherwise time.Duration) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return otherwise
}

func tell(decision *berth.Decision) bool {
	name := decision.GetPod().GetName()
	switch outcome := decision.GetOutcome().(type) {
	case *berth.Decision_Placement:
		fmt.Printf("%s: %s, one of %d nodes that fit\n", name, outcome.Placement.GetNodeName(), outcome.Placement.GetNFeasibleNodes())
		return true
	case *berth.Decision_Unschedulable:
		fmt.Printf("%s: %s\n", name, outcome.Unschedulable.GetMessage())
	case *berth.Decision_Gated:
		fmt.Printf("%s: held back by %s\n", name, outcome.Gated.GetPlugin())
	}
	return false
}
