c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.CourseDirectory.course_id = "fedlib"
c.CourseDirectory.solution_directory = "instructor"
c.Execute.timeout = 600  # seconds a cell
