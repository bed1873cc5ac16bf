"""What has gone wrong for people in this job: each kind a test that fails on the fault."""
